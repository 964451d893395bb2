import { describe, expect, it } from 'vitest'
import { compareConfigs } from './run-config.ts'

describe('the comparison of configurations', () => {
  it('has every path once, with the value of each run', () => {
    const first = { model: 'qwen', optimizer: { lr: 1e-6, betas: [0.9, 0.95] }, seed: null }
    const second = { optimizer: { betas: [0.9, 0.95], lr: 5e-6 }, model: 'qwen', warmup: false }
    expect(compareConfigs([first, second])).toEqual([
      { path: 'model', values: ['qwen', 'qwen'], isDifferent: false },
      { path: 'optimizer.lr', values: [1e-6, 5e-6], isDifferent: true },
      { path: 'optimizer.betas', values: ['[0.9,0.95]', '[0.9,0.95]'], isDifferent: false },
      { path: 'seed', values: [null, undefined], isDifferent: true },
      { path: 'warmup', values: [undefined, false], isDifferent: true },
    ])
  })

  it('distinguishes values that are equal when shortened or written as text', () => {
    const long = 'x'.repeat(600)
    const [text, flag] = compareConfigs([
      { prompt: `${long}a`, flag: true },
      { prompt: `${long}b`, flag: 'true' },
    ])
    expect(text).toMatchObject({
      isDifferent: true,
      values: [long.slice(0, 500), long.slice(0, 500)],
    })
    expect(flag).toEqual({ path: 'flag', values: [true, 'true'], isDifferent: true })
  })
})
