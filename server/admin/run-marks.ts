import { MAX_MARKS, type MarkInput, type MarkUpdate, type RunMarkDto } from '../contract/marks.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { runIdOf } from '../store/sql/monitor-views.ts'
import { addMark, changeMark, dropMark, type RunMarkRow, runMarks } from '../store/sql/run-marks.ts'

export class RunMarks {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws RewardOpsError `run_not_found` */
  async list(run: string): Promise<RunMarkDto[]> {
    return (await runMarks(this.#db, await this.#runId(run), MAX_MARKS)).map(markOf)
  }

  /** @throws RewardOpsError `run_not_found`, and `invalid_input` if the run has too many marks */
  async create({ run, ...mark }: MarkInput, author: string): Promise<RunMarkDto> {
    const row = await addMark(this.#db, await this.#runId(run), { ...mark, author }, MAX_MARKS)
    if (row === undefined) {
      throw new RewardOpsError('invalid_input', `The run already has ${MAX_MARKS} marks.`, {
        hint: 'Remove outdated marks.',
      })
    }
    return markOf(row)
  }

  /** @throws RewardOpsError `mark_not_found` */
  async update({ id, ...change }: MarkUpdate): Promise<RunMarkDto> {
    const row = await changeMark(this.#db, refOf(id), change)
    if (row === undefined) throw notFound(id)
    return markOf(row)
  }

  /** @throws RewardOpsError `mark_not_found` */
  async remove(id: string): Promise<{ removed: true }> {
    if (!(await dropMark(this.#db, refOf(id)))) throw notFound(id)
    return { removed: true }
  }

  async #runId(name: string): Promise<number> {
    const id = await runIdOf(this.#db, name)
    if (id === undefined) throw runNotFound(name)
    return id
  }
}

export function markOf(row: RunMarkRow): RunMarkDto {
  const { id, step, label, note, author } = row
  return { id: `m${id}`, kind: 'manual', step, label, note, author, at: row.at.toISOString() }
}

/** The number in an id. The input schema has checked the format of the id. */
function refOf(id: string): number {
  return Number(id.slice(1))
}

function notFound(id: string): RewardOpsError {
  return new RewardOpsError('mark_not_found', `There is no mark "${id.slice(0, 40)}".`)
}
