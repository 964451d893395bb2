import { expect, test } from 'vitest'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { whyManager } from './why.ts'

test('a penalty for an overlong response is called clamped only beyond the maximum length', () => {
  const overlong = { enable: true, len: 20, clamp: true }
  const reward = {
    manager: 'dapo',
    kwargs: { max_resp_len: 100, overlong_buffer_cfg: overlong },
  } as unknown as ResolvedReward
  const why = (responseLength: number) =>
    whyManager(reward, {
      ...{ dataSource: 'math_dapo', prompt: 'Q', solutionStr: 'A', groundTruth: 'A' },
      ...{ extraInfo: {}, responseLength },
    })
  expect(why(80)).toContain('no penalty')
  expect(why(90)).toBe('10 tokens over 80: −(10 ÷ 20) × 1.')
  expect(why(110)).toBe('30 tokens over 80: −(30 ÷ 20) × 1, clamped at −1.')
})
