import { ANNOTATIONS_COLUMN } from '../../server/wire/export.ts'
import { EXTRA_PREFIX } from './sample-columns.tsx'

/** What the table's columns are called in an export. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  sample: ['batchId', 'index'],
  run: ['run'],
  step: ['step'],
  group: ['uid'],
  source: ['dataSource'],
  status: ['status', 'reason'],
  score: ['score', 'substituted'],
  raw: ['rawScore'],
  length: ['responseLength'],
  queue: ['queueMs'],
  scoring: ['scoreMs'],
  attempts: ['attempts'],
  server: ['serverName'],
  labels: [ANNOTATIONS_COLUMN],
}

/** All that is no text. */
export const USUAL_EXPORT: readonly string[] = [
  ...['batchId', 'index', 'run', 'step', 'split', 'uid', 'dataSource', 'status', 'reason'],
  ...['score', 'rawScore', 'substituted', 'responseLength', 'queueMs', 'scoreMs', 'attempts'],
  ...['serverName', 'rewardExtraInfo', ANNOTATIONS_COLUMN],
]

/** The columns of an export that hold what the table shows; the sample always, what an export does not have never. */
export function exportColumns(columns: readonly { name: string }[]): string[] {
  return [
    ...new Set(
      ['sample', ...columns.map(({ name }) => name)].flatMap((name) =>
        name.startsWith(EXTRA_PREFIX) ? [name] : (NAMES[name] ?? []),
      ),
    ),
  ]
}
