import { expect, test } from 'vitest'
import type { RetentionJobDto } from '../../server/contract/retention.ts'
import { progressOf } from './retention.prepare.ts'

test('the progress of a removal is the share of its samples, or of its batches if only texts are removed', () => {
  const progress = (
    expected: RetentionJobDto['expected'],
    removed: Partial<RetentionJobDto['removed']>,
    state: RetentionJobDto['state'] = 'running',
  ) => {
    const none = { batches: 0, samples: 0, textBatches: 0 }
    return progressOf({ expected, removed: { ...none, ...removed }, state } as RetentionJobDto)
  }
  expect(progress({ batches: 10, samples: 400 }, { batches: 9, samples: 100 })).toBe(0.25)
  expect(progress({ batches: 10, samples: 400 }, { batches: 12, samples: 500 })).toBe(1)
  expect(progress({ batches: 10, samples: 0 }, { textBatches: 5 })).toBe(0.5)
  expect(progress({ batches: 10, samples: 0 }, { batches: 2, textBatches: 5 })).toBe(0.7)
  expect(progress({ batches: 10, samples: 0 }, { textBatches: 5 }, 'done')).toBe(1)
  expect(progress(null, { textBatches: 5 })).toBeNull()
  expect(progress({ batches: 0, samples: 0 }, {})).toBeNull()
})
