import type {
  DeliveriesInput,
  DeliveryPageDto,
  TestedWebhookDto,
  WebhookDto,
  WebhookInput,
  WebhookUpdate,
} from '../../contract/alerts.ts'
import { RewardOpsError } from '../../errors.ts'
import { notify } from '../../store/channels.ts'
import type { Database } from '../../store/database.ts'
import { toDto } from '../../store/row-of.ts'
import { noteAttempt, queueTest } from '../../store/sql/alert-outbox.ts'
import {
  addWebhook,
  changeWebhook,
  type DeliveryRow,
  dropWebhook,
  lastDeliveries,
  listDeliveries,
  type WebhookRow,
  webhookRows,
  webhookTarget,
} from '../../store/sql/webhooks.ts'
import { idOf } from '../monitors-view.ts'
import { alertBody, testPayload } from './alert-payload.ts'
import { CLAIM_MS } from './alert-sender.ts'
import { postWebhook, webhookUrlProblem } from './post-webhook.ts'

/** Manages the webhooks for alerts. Secrets and full URLs are never returned. */
export class Webhooks {
  readonly #db: Database
  readonly #basePath: string

  constructor(db: Database, basePath: string) {
    this.#db = db
    this.#basePath = basePath
  }

  async list(): Promise<WebhookDto[]> {
    const [rows, last] = await Promise.all([webhookRows(this.#db), lastDeliveries(this.#db)])
    return rows.map((row) =>
      webhookOf(
        row,
        last.find(({ webhookId }) => webhookId === `w${row.id}`),
      ),
    )
  }

  /** @throws RewardOpsError `forbidden_url`, and `invalid_input` for a name in use */
  async create(input: WebhookInput, by: string): Promise<WebhookDto> {
    checkUrl(input.url)
    const id = await addWebhook(this.#db, { ...input, secret: input.secret ?? null }, by)
    if (id === undefined) throw nameTaken(input.name)
    await this.#changed()
    return this.#get(id)
  }

  /** @throws RewardOpsError `webhook_not_found`, `forbidden_url`, and `invalid_input` for a name in use */
  async update({ id, ...changes }: WebhookUpdate): Promise<WebhookDto> {
    if (changes.url !== undefined) checkUrl(changes.url)
    const no = refOf(id)
    const given = Object.fromEntries(
      Object.entries(changes).filter(([, value]) => value !== undefined),
    )
    const outcome = await changeWebhook(this.#db, no, given)
    if (outcome === 'missing') throw notFound(id)
    if (outcome === 'taken') throw nameTaken(changes.name ?? '')
    await this.#changed()
    return this.#get(no)
  }

  /** @throws RewardOpsError `webhook_not_found` */
  async remove(id: string): Promise<{ removed: true }> {
    if (!(await dropWebhook(this.#db, refOf(id)))) throw notFound(id)
    await this.#changed()
    return { removed: true }
  }

  /**
   * Sends a test event once and returns the answer. {@link deliveries} also lists the event.
   * @throws RewardOpsError `webhook_not_found`
   */
  async test(id: string): Promise<TestedWebhookDto> {
    const no = refOf(id)
    const found = await webhookTarget(this.#db, no)
    if (found === undefined) throw notFound(id)
    const payload = testPayload(found.name)
    const delivery = await queueTest(
      this.#db,
      no,
      { id: payload.id, payload: { ...payload } },
      CLAIM_MS,
    )
    const body = alertBody(payload, this.#basePath)
    const answer = await postWebhook(found.target, { id: payload.id, attempt: 1, body })
    await noteAttempt(this.#db, delivery, { ...answer, againMs: null })
    await this.#changed()
    const { delivered, status, latencyMs, error } = answer
    return {
      eventId: payload.id,
      ...{ delivered, status, latencyMs, error },
      answer: answer.answer,
    }
  }

  /** @throws RewardOpsError `webhook_not_found`, `cursor_mismatch` */
  async deliveries({ id, cursor, limit }: DeliveriesInput): Promise<DeliveryPageDto> {
    const rows = await listDeliveries(this.#db, {
      webhookId: id === undefined ? null : refOf(id),
      beforeId: cursor ? idOf(cursor, 'alerts.deliveries') : null,
      limit: limit + 1,
    })
    const items = rows.slice(0, limit).map(toDto)
    return { items, nextCursor: rows.length > limit ? (items.at(-1)?.id ?? null) : null }
  }

  async #get(id: number): Promise<WebhookDto> {
    const found = (await this.list()).find((one) => one.id === `w${id}`)
    if (found === undefined) throw notFound(`w${id}`)
    return found
  }

  async #changed(): Promise<void> {
    await notify(this.#db.pool, 'monitorsChanged')
  }
}

/** The number in an id, which the input schema has checked. */
function refOf(id: string): number {
  return Number(id.slice(1))
}

function notFound(id: string): RewardOpsError {
  return new RewardOpsError('webhook_not_found', `There is no webhook "${id.slice(0, 40)}".`)
}

function nameTaken(name: string): RewardOpsError {
  return new RewardOpsError('invalid_input', `name: another webhook is called "${name}" already.`)
}

function checkUrl(url: string): void {
  const problem = webhookUrlProblem(url)
  if (problem !== null) throw new RewardOpsError('forbidden_url', problem)
}

/** Returns a URL's origin and, if the rest is long, its last four characters. The rest may be a key. */
export function displayUrl(url: string): string {
  const { origin } = new URL(url)
  const rest = url.slice(origin.length)
  return rest.length <= 1 ? origin : `${origin}/…${rest.length > 12 ? rest.slice(-4) : ''}`
}

const shownUrl = ({ url }: WebhookRow) => (url === null ? 'cannot be decrypted' : displayUrl(url))

function webhookOf(row: WebhookRow, last: DeliveryRow | undefined): WebhookDto {
  return {
    ...{ id: `w${row.id}`, name: row.name, displayUrl: shownUrl(row), signed: row.signed },
    severities: row.severities as WebhookDto['severities'],
    monitors: row.monitors as WebhookDto['monitors'],
    ...{ runs: row.runs, fleet: row.fleet, enabled: row.enabled },
    ...{ createdAt: row.created_at.toISOString(), createdBy: row.created_by },
    ...{ delivered: row.delivered, gaveUp: row.gave_up, waiting: row.waiting },
    last: last === undefined ? null : toDto(last),
  }
}
