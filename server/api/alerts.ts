import { z } from 'zod'
import {
  DeliveriesInput,
  type DeliveryPageDto,
  type TestedWebhookDto,
  type WebhookDto,
  WebhookInput,
  WebhookRef,
  WebhookUpdate,
} from '../wire/alerts.ts'
import { procedure, router } from './trpc.ts'

/** What the procedures of alerts call. */
export interface AlertServices {
  listWebhooks(): Promise<WebhookDto[]>
  createWebhook(input: WebhookInput, by: string): Promise<WebhookDto>
  updateWebhook(input: WebhookUpdate): Promise<WebhookDto>
  removeWebhook(id: string): Promise<{ removed: true }>
  /** Sends a marked event now and says what the receiver answered. */
  testWebhook(id: string): Promise<TestedWebhookDto>
  listDeliveries(input: DeliveriesInput): Promise<DeliveryPageDto>
}

/** Where alerts are sent, and what became of them. */
export const alertsRouter = router({
  list: procedure
    .input(z.strictObject({}).optional())
    .query(({ ctx }) => ctx.services.listWebhooks()),
  create: procedure
    .input(WebhookInput)
    .mutation(({ ctx, input }) => ctx.services.createWebhook(input, ctx.actor.name)),
  update: procedure
    .input(WebhookUpdate)
    .mutation(({ ctx, input }) => ctx.services.updateWebhook(input)),
  remove: procedure
    .input(WebhookRef)
    .mutation(({ ctx, input }) => ctx.services.removeWebhook(input.id)),
  test: procedure
    .input(WebhookRef)
    .mutation(({ ctx, input }) => ctx.services.testWebhook(input.id)),
  deliveries: procedure
    .input(DeliveriesInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.listDeliveries(input)),
})
