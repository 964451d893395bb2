import { z } from 'zod'
import { DeliveriesInput, WebhookInput, WebhookRef, WebhookUpdate } from '../contract/alerts.ts'
import { procedure, router } from './trpc.ts'

/** Where alerts are sent, and what became of them. */
export const alertsRouter = router({
  list: procedure.input(z.strictObject({}).optional()).query(({ ctx }) => ctx.webhooks.list()),
  create: procedure
    .input(WebhookInput)
    .mutation(({ ctx, input }) => ctx.webhooks.create(input, ctx.actor.name)),
  update: procedure.input(WebhookUpdate).mutation(({ ctx, input }) => ctx.webhooks.update(input)),
  remove: procedure.input(WebhookRef).mutation(({ ctx, input }) => ctx.webhooks.remove(input.id)),
  test: procedure.input(WebhookRef).mutation(({ ctx, input }) => ctx.webhooks.test(input.id)),
  deliveries: procedure
    .input(DeliveriesInput.prefault({}))
    .query(({ ctx, input }) => ctx.webhooks.deliveries(input)),
})
