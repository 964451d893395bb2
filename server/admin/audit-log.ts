import type { AuditEntryDto, AuditInput, AuditPageDto } from '../contract/audit.ts'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { toDto } from '../store/row-of.ts'
import { auditChoices, auditPage, insertAudit } from '../store/sql/audit.ts'

/** The filters of the audit log offer the actors and actions of this many newest changes. */
const CHOICES_OF = 5_000

export class AuditLog {
  readonly #db: Database
  readonly #pagesDb: Database
  readonly #log: Logger

  constructor(db: Database, pagesDb: Database, log: Logger) {
    this.#db = db
    this.#pagesDb = pagesDb
    this.#log = log
  }

  /** Records a change. Never throws, because the change itself has already succeeded. */
  async note(entry: Omit<AuditEntryDto, 'id' | 'at'>): Promise<void> {
    try {
      await insertAudit(this.#db, entry)
    } catch (error) {
      const { actor, action, target } = entry
      this.#log.error(
        { actor, action, target, err: (error as Error).message },
        'a change could not be recorded',
      )
    }
  }

  async list({ actor, action, cursor, limit }: AuditInput): Promise<AuditPageDto> {
    const [rows, choices] = await Promise.all([
      auditPage(this.#pagesDb, {
        actor: actor ?? null,
        action: action ?? null,
        beforeId: cursor ?? null,
        limit: limit + 1,
      }),
      auditChoices(this.#pagesDb, CHOICES_OF),
    ])
    const page = rows.slice(0, limit)
    return {
      items: page.map(toDto),
      nextCursor: rows.length > limit ? (page.at(-1)?.id ?? null) : null,
      ...choices,
    }
  }
}
