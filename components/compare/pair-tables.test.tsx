import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import type { ComparePairDto } from '../../server/contract/compare.ts'
import { AdvantageSigns } from './pair-tables.tsx'

const shown = (groups: Pick<ComparePairDto['groups'], 'n' | 'samples' | 'signs'>) =>
  renderToStaticMarkup(<AdvantageSigns pair={{ groups } as ComparePairDto} />)

test('signs of advantages are a table, or a sentence if no group can be compared', () => {
  const none = [0, 0, 0]
  const compared = shown({ n: 2, samples: 8, signs: [[4, 0, 0], none, [1, 0, 3]] } as never)
  expect(compared).toContain('GRPO, n = 8 in 2 groups')
  expect(compared).toContain('<table')
  const alone = shown({ n: 0, samples: 0, signs: [none, none, none] } as never)
  expect(alone).toContain('there is no within-group comparison')
  expect(alone).not.toContain('<table')
})
