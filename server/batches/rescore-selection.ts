import { MAX_SELECTED_SAMPLES, type RescoreSelection } from '../contract/rescore.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { groupsByUid, type PartToCopy, samplesOfBatch } from '../store/sql/rescore-part.ts'
import { type SampleCursor, sampleKeys } from '../store/sql/sample-list.ts'

const KEYS_AT_ONCE = 5_000

export interface SelectedPart extends PartToCopy {
  /** Number of samples that the caller selected. The others were added because they belong to the same groups. */
  selected: number
}

/**
 * Returns the selected samples of a batch, renumbered. Groups keep their order. Throws `sample_not_found` for missing
 * indexes or groups or an empty result, `invalid_input` for too many samples.
 * @param groupsNeeded whether the reward needs whole groups, so that the other members of selected groups are added
 */
export async function selectPart(
  db: Database,
  batch: { id: number },
  select: RescoreSelection,
  groupsNeeded: boolean,
): Promise<SelectedPart> {
  let rows = await chosenOf(db, batch.id, select)
  if (rows.length === 0) {
    throw new RewardOpsError('sample_not_found', `No sample of b${batch.id} is selected.`, {
      hint: 'Widen the filter; samples.count returns the number of matches.',
    })
  }
  const chosen = rows.length
  if (select.wholeGroups || groupsNeeded) {
    const groups = [...new Set(rows.map(({ group_no }) => group_no))]
    rows = await samplesOfBatch(db, batch.id, { groups })
  }
  if (rows.length > MAX_SELECTED_SAMPLES) throw tooMany(batch.id)
  const members = new Map<number, number>()
  for (const { group_no } of rows) members.set(group_no, (members.get(group_no) ?? 0) + 1)
  const groups = [...members.keys()].sort((a, b) => a - b)
  const numbers = new Map(groups.map((no, at) => [no, at]))
  return {
    selected: chosen,
    idx: rows.map(({ idx }) => idx),
    groupNo: rows.map(({ group_no }) => numbers.get(group_no) as number),
    groups: groups.map((no) => ({ no, members: members.get(no) as number })),
  }
}

async function chosenOf(
  db: Database,
  batchId: number,
  { indexes, uids, filter }: RescoreSelection,
): Promise<{ idx: number; group_no: number }[]> {
  if (indexes !== undefined) {
    const wanted = [...new Set(indexes)]
    const rows = await samplesOfBatch(db, batchId, { indexes: wanted })
    if (rows.length < wanted.length) {
      const there = new Set(rows.map(({ idx }) => idx))
      const missing = wanted.find((idx) => !there.has(idx))
      throw new RewardOpsError('sample_not_found', `There is no sample b${batchId}-${missing}.`)
    }
    return rows
  }
  if (uids !== undefined) {
    const groups = await groupsByUid(db, batchId, uids)
    if (groups.length < new Set(uids).size) {
      throw new RewardOpsError(
        'sample_not_found',
        `b${batchId} has ${groups.length} of the ${new Set(uids).size} groups named.`,
        { hint: 'Name groups that the batch has; batches.groups lists them.' },
      )
    }
    return samplesOfBatch(db, batchId, { groups })
  }
  const found: number[] = []
  for (let cursor: SampleCursor | null = null; ; ) {
    const page = await sampleKeys(
      db,
      { ...filter, batchId },
      { sort: 'newest', cursor, limit: KEYS_AT_ONCE },
    )
    found.push(...page.keys.map(({ idx }) => idx))
    if (found.length > MAX_SELECTED_SAMPLES) throw tooMany(batchId)
    cursor = page.next
    if (cursor === null) break
  }
  return found.length === 0 ? [] : samplesOfBatch(db, batchId, { indexes: found })
}

function tooMany(batchId: number): RewardOpsError {
  return new RewardOpsError(
    'invalid_input',
    `More than ${MAX_SELECTED_SAMPLES.toLocaleString('en')} samples of b${batchId} are selected.`,
    { hint: 'Leave select out to rescore the whole batch, or narrow the filter.' },
  )
}
