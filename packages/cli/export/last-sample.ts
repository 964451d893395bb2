import { EXPORTED_ROLLOUT_COLUMNS } from '../../../server/contract/csv-cells.ts'
import type { ExportFormat } from '../../../server/contract/export.ts'
import { splitRecord } from '../rollouts/csv-rows.ts'

/**
 * Reads the id of the sample in an exported row.
 * @param columns columns of the CSV in order, at least up to `batchId` and `index`
 * @returns the sample's id, such as `b12-3`; null for a CSV header
 * @throws Error when the row is not an exported sample
 */
export function sampleOfRow(
  row: Buffer,
  format: ExportFormat,
  columns: readonly string[] = EXPORTED_ROLLOUT_COLUMNS,
): string | null {
  const text = row.toString('utf8').replace(/\r?\n$/, '')
  if (format === 'csv') {
    const cells = splitRecord(text)
    const [batch, index] = [cells[columns.indexOf('batchId')], cells[columns.indexOf('index')]]
    return batch === 'batchId' ? null : checked(`${batch}-${index}`)
  }
  const value = JSON.parse(text) as { batchId?: string; index?: number; sample_id?: string }
  return checked(format === 'verl' ? `${value.sample_id}` : `${value.batchId}-${value.index}`)
}

function checked(sample: string): string {
  if (!/^b\d+-\d+$/.test(sample)) throw new Error('the row names no sample')
  return sample
}
