import { z } from 'zod'
import { Cursor, RunName, storableText, trimmedText } from './fields.ts'
import { FLEET_MONITORS, MONITORS, SEVERITIES } from './monitors.ts'

/**
 * Maximum number of attempts per delivery. With full jitter and waits up to ten minutes, all attempts together take
 * half an hour on average.
 */
export const MAX_ATTEMPTS = 15

const WebhookId = z.string().regex(/^w\d{1,9}$/, 'must be the id of a webhook, such as w1')
const Name = trimmedText(80).min(1, 'must not be empty')
const Url = trimmedText(2_048).min(1, 'must not be empty')
const Secret = storableText(256).min(8)
const Monitors = z.array(z.enum([...MONITORS, ...FLEET_MONITORS])).max(32)
const Runs = z.array(RunName).max(100)

/** The input of `alerts.create`. */
export const WebhookInput = z.strictObject({
  name: Name,
  url: Url,
  /** The key that signs every message. Null if messages are unsigned. */
  secret: Secret.nullish(),
  severities: z
    .array(z.enum(SEVERITIES))
    .min(1)
    .max(2)
    .default([...SEVERITIES]),
  /** Notify on these monitors. An empty list means all. */
  monitors: Monitors.default([]),
  /** Notify about these runs. An empty list means all. */
  runs: Runs.default([]),
  /** Notify about servers. */
  fleet: z.boolean().default(true),
  enabled: z.boolean().default(true),
})
export type WebhookInput = z.infer<typeof WebhookInput>

/** The input of `alerts.update`. Only the given fields change. */
export const WebhookUpdate = z.strictObject({
  id: WebhookId,
  name: Name.optional(),
  url: Url.optional(),
  /** Null removes the secret. */
  secret: Secret.nullable().optional(),
  severities: z.array(z.enum(SEVERITIES)).min(1).max(2).optional(),
  /** Notify on these monitors. An empty list means all. */
  monitors: Monitors.optional(),
  /** Notify about these runs. An empty list means all. */
  runs: Runs.optional(),
  /** Notify about servers. */
  fleet: z.boolean().optional(),
  enabled: z.boolean().optional(),
})
export type WebhookUpdate = z.infer<typeof WebhookUpdate>

/** The input of `alerts.test` and `alerts.remove`. */
export const WebhookRef = z.strictObject({ id: WebhookId })

/** The input of `alerts.deliveries`. */
export const DeliveriesInput = z.strictObject({
  /** The id of a webhook. Default: all webhooks. */
  id: WebhookId.optional(),
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type DeliveriesInput = z.infer<typeof DeliveriesInput>

/** Maximum number of listed webhooks, in order of name. */
export const MAX_LISTED_WEBHOOKS = 200
/** Maximum number of a webhook's deliveries, newest first, that are counted. */
export const MAX_COUNTED_DELIVERIES = 1_000

/** A webhook, without its secret and without the part of its URL that may be secret. */
export interface WebhookDto {
  id: string
  name: string
  /** Scheme and host of the URL, and the last four characters of a long path. */
  displayUrl: string
  signed: boolean
  severities: (typeof SEVERITIES)[number][]
  monitors: ((typeof MONITORS)[number] | (typeof FLEET_MONITORS)[number])[]
  runs: string[]
  /** Notifies about servers. */
  fleet: boolean
  enabled: boolean
  createdAt: string
  createdBy: string
  /**
   * Deliveries of the last 24 hours that succeeded. `delivered`, `gaveUp` and `waiting` cover at most the newest 1,000
   * deliveries.
   */
  delivered: number
  /** Deliveries of the last 24 hours that were given up. */
  gaveUp: number
  /** Deliveries of the last 24 hours that wait for an attempt. */
  waiting: number
  last: DeliveryDto | null
}

/** The state of a delivery. `gave_up`: the last attempt failed, or the webhook was removed or disabled. */
export type DeliveryState = 'waiting' | 'delivered' | 'gave_up'

/** The delivery of one event to one webhook. */
export interface DeliveryDto {
  id: string
  webhookId: string
  /** The name of the webhook. */
  webhook: string
  /** The same in every attempt, so that receivers can drop duplicates. */
  eventId: string
  kind: AlertKind
  text: string
  state: DeliveryState
  attempts: number
  /** HTTP status of the last attempt, or null if there was no response. */
  status: number | null
  latencyMs: number | null
  error: string | null
  createdAt: string
  lastAttemptAt: string | null
  nextAttemptAt: string | null
}

/** The output of `alerts.deliveries`. */
export interface DeliveryPageDto {
  items: DeliveryDto[]
  nextCursor: string | null
}

/** The output of `alerts.test`: the receiver's response to a test message. */
export interface TestedWebhookDto {
  eventId: string
  delivered: boolean
  status: number | null
  latencyMs: number
  /** The start of the response body. */
  answer: string | null
  error: string | null
}

/** The event that a webhook reports. */
export type AlertKind = 'opened' | 'escalated' | 'resolved' | 'test'

/** The body of every request to a webhook; docs/monitors.md shows it. */
export interface AlertPayload {
  /** The version of this format. Every incompatible change increases it. */
  version: 1
  id: string
  kind: AlertKind
  /** True for a message of `alerts.test`: nothing has happened. */
  test: boolean
  at: string
  severity: (typeof SEVERITIES)[number]
  monitor: string
  title: string
  /** One line, which Slack and similar services show. */
  text: string
  run: string | null
  split: 'train' | 'val' | null
  step: number | null
  batchId: string | null
  /** For monitors of servers: the server or the model; otherwise null. */
  subject: string | null
  value: number | null
  threshold: number | null
  detail: string | null
  incidentId: string | null
  /**
   * The path of the page with the details, with the prefix of REWARDOPS_BASE_PATH. It is not a full URL, because the
   * service does not know its public host name.
   */
  path: string
}
