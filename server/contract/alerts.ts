import { z } from 'zod'
import { FLEET_MONITORS, MONITORS, SEVERITIES } from './monitors.ts'

/** Attempts of one delivery, over half an hour in the mean: full jitter, up to ten minutes between two. */
export const MAX_ATTEMPTS = 15

const Name = z.string().trim().min(1).max(80)
const Url = z.string().trim().min(1).max(2_048)
const Secret = z.string().min(8).max(256)
const Monitors = z.array(z.enum([...MONITORS, ...FLEET_MONITORS])).max(32)
const Runs = z.array(z.string().min(1).max(256)).max(100)

/** `alerts.create`. An empty list means all of them. */
export const WebhookInput = z.strictObject({
  name: Name,
  url: Url,
  /** Signs every message; null: no signature. */
  secret: Secret.nullish(),
  severities: z
    .array(z.enum(SEVERITIES))
    .min(1)
    .max(2)
    .default([...SEVERITIES]),
  monitors: Monitors.default([]),
  runs: Runs.default([]),
  /** Notify about servers. */
  fleet: z.boolean().default(true),
  enabled: z.boolean().default(true),
})
export type WebhookInput = z.infer<typeof WebhookInput>

/** `alerts.update`: what is given changes; `secret: null` takes it away. */
export const WebhookUpdate = z.strictObject({
  id: z.string().max(20),
  name: Name.optional(),
  url: Url.optional(),
  secret: Secret.nullable().optional(),
  severities: z.array(z.enum(SEVERITIES)).min(1).max(2).optional(),
  monitors: Monitors.optional(),
  runs: Runs.optional(),
  fleet: z.boolean().optional(),
  enabled: z.boolean().optional(),
})
export type WebhookUpdate = z.infer<typeof WebhookUpdate>

/** `alerts.test`, `alerts.remove`. */
export const WebhookRef = z.strictObject({ id: z.string().max(20) })

/** `alerts.deliveries`, the newest first. */
export const DeliveriesInput = z.strictObject({
  id: z.string().max(20).optional(),
  cursor: z.string().max(32).nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type DeliveriesInput = z.infer<typeof DeliveriesInput>

/** A webhook as pages see it: neither its secret nor the part of its address that may be one. */
export interface WebhookDto {
  id: string
  name: string
  /** Scheme, host and the last four characters of the rest. */
  displayUrl: string
  signed: boolean
  severities: (typeof SEVERITIES)[number][]
  monitors: ((typeof MONITORS)[number] | (typeof FLEET_MONITORS)[number])[]
  runs: string[]
  fleet: boolean
  enabled: boolean
  createdAt: string
  createdBy: string
  /** Of the last 24 hours. */
  delivered: number
  gaveUp: number
  waiting: number
  last: DeliveryDto | null
}

export type DeliveryState = 'waiting' | 'delivered' | 'gave_up'

/** One event's way to one webhook. */
export interface DeliveryDto {
  id: string
  webhookId: string
  webhook: string
  /** Repeated in every attempt: receivers tell doubles by it. */
  eventId: string
  kind: AlertKind
  text: string
  state: DeliveryState
  attempts: number
  /** Of the last attempt; null: nobody answered. */
  status: number | null
  latencyMs: number | null
  error: string | null
  createdAt: string
  /** When it was tried last. */
  lastAttemptAt: string | null
  /** When it is tried next. */
  nextAttemptAt: string | null
}

/** `alerts.deliveries`. */
export interface DeliveryPageDto {
  items: DeliveryDto[]
  nextCursor: string | null
}

/** `alerts.test`: what the receiver said, now. */
export interface TestedWebhookDto {
  eventId: string
  delivered: boolean
  status: number | null
  latencyMs: number
  /** The beginning of its answer. */
  answer: string | null
  error: string | null
}

/** Why a webhook is called. */
export type AlertKind = 'opened' | 'escalated' | 'resolved' | 'test'

/** The body of every call; docs/monitors.md prints it. */
export interface AlertPayload {
  /** Of the form of this body; grows when it changes in a way that readers must know. */
  version: 1
  id: string
  kind: AlertKind
  /** True for the test button's: nothing has happened. */
  test: boolean
  at: string
  severity: (typeof SEVERITIES)[number]
  monitor: string
  title: string
  /** One line; what Slack and its like show. */
  text: string
  run: string | null
  split: 'train' | 'val' | null
  step: number | null
  batchId: string | null
  /** Of the fleet: the server or the model. */
  subject: string | null
  value: number | null
  threshold: number | null
  detail: string | null
  incidentId: string | null
  /** Where to look, without the service's address, which it does not know. */
  path: string
}
