import { MAX_TAGS, type RunConfigDto, type UpdateRunInput } from '../contract/run-config.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { changeRun, type RunConfigRow, runConfig } from '../store/sql/run-config.ts'

export class RunConfigs {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws RewardOpsError `run_not_found` */
  async get(run: string): Promise<RunConfigDto> {
    const row = await runConfig(this.#db, run)
    if (row === undefined) throw runNotFound(run)
    return toDto(row)
  }

  /** @throws RewardOpsError `invalid_input` if the run would have too many tags */
  update(input: UpdateRunInput): Promise<RunConfigDto> {
    return this.#db.transaction(async (client) => {
      const row = await changeRun(client, input)
      if (row === null) {
        throw new RewardOpsError('invalid_input', `A run has at most ${MAX_TAGS} tags.`, {
          hint: 'Remove tags with removeTags.',
        })
      }
      return toDto(row)
    })
  }
}

function toDto({ name, config, tags }: RunConfigRow): RunConfigDto {
  return { run: name, config, tags: tags ?? [] }
}
