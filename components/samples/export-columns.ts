import { ANNOTATIONS_COLUMN } from '../../server/contract/export.ts'
import { fieldOf, ROW_FIELDS } from '../../server/contract/sample-fields.ts'
import { EXTRA_PREFIX } from './sample-columns.tsx'

const NAMES: Readonly<Record<string, readonly string[]>> = {
  sample: ['batchId', 'index'],
  run: ['run'],
  step: ['step'],
  prompt: ['prompt'],
  response: ['response'],
  group: ['uid'],
  source: ['dataSource'],
  status: ['status', 'reason'],
  score: ['score', 'substituted'],
  verdict: ['verdict'],
  extracted: ['extracted'],
  raw: ['rawScore'],
  ...Object.fromEntries(ROW_FIELDS.map((name) => [fieldOf(name).tableColumn ?? name, [name]])),
  queue: ['queueMs'],
  scoring: ['scoreMs'],
  attempts: ['attempts'],
  server: ['serverName'],
  labels: [ANNOTATIONS_COLUMN],
  ended: ['endedAt'],
}

/** All columns except texts. */
export const DEFAULT_EXPORT_COLUMNS: readonly string[] = [
  ...['batchId', 'index', 'run', 'step', 'split', 'uid', 'dataSource', 'status', 'reason'],
  ...['score', 'rawScore', 'substituted', ...ROW_FIELDS, 'queueMs', 'scoreMs', 'attempts'],
  ...['serverName', 'verdict', 'extracted', 'rewardExtraInfo', ANNOTATIONS_COLUMN],
]

/**
 * The export columns for the shown table columns. The columns that identify the sample are always included; columns
 * that do not exist in exports are omitted.
 */
export function exportColumns(columns: readonly { name: string }[]): string[] {
  return [
    ...new Set(
      ['sample', ...columns.map(({ name }) => name)].flatMap((name) =>
        name.startsWith(EXTRA_PREFIX) ? [name] : (NAMES[name] ?? []),
      ),
    ),
  ]
}
