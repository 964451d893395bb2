import { z } from 'zod'
import { DeliveriesInput, WebhookInput, WebhookRef, WebhookUpdate } from '../contract/alerts.ts'
import { procedure, router } from './trpc.ts'

export const alertsRouter = router({
  /** Lists webhooks with their deliveries of the last 24 hours. */
  list: procedure.input(z.strictObject({}).optional()).query(({ ctx }) => ctx.webhooks.list()),
  /**
   * Creates a webhook.
   * @throws forbidden_url
   * @example {"name": "ops", "url": "https://hooks.example.com/rewards", "severities": ["alerting"]}
   */
  create: procedure
    .input(WebhookInput)
    .mutation(({ ctx, input }) => ctx.webhooks.create(input, ctx.actor.name)),
  /**
   * Changes fields of a webhook.
   * @throws webhook_not_found, forbidden_url
   * @example {"id": "w1", "enabled": false}
   */
  update: procedure.input(WebhookUpdate).mutation(({ ctx, input }) => ctx.webhooks.update(input)),
  /**
   * Removes a webhook.
   * @throws webhook_not_found
   * @example {"id": "w1"}
   */
  remove: procedure.input(WebhookRef).mutation(({ ctx, input }) => ctx.webhooks.remove(input.id)),
  /**
   * Sends a test message to a webhook and returns the response.
   * @throws webhook_not_found, forbidden_url
   * @example {"id": "w1"}
   */
  test: procedure.input(WebhookRef).mutation(({ ctx, input }) => ctx.webhooks.test(input.id)),
  /**
   * Lists webhook deliveries, newest first.
   * @throws cursor_mismatch
   * @example {"id": "w1"}
   */
  deliveries: procedure
    .input(DeliveriesInput.prefault({}))
    .query(({ ctx, input }) => ctx.webhooks.deliveries(input)),
})
