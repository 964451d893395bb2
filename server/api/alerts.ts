import { DeliveriesInput, WebhookInput, WebhookRef, WebhookUpdate } from '../contract/alerts.ts'
import { type Audited, named, nameOrId } from './procedure-meta.ts'
import { nothing, procedure, router } from './trpc.ts'

const webhook: Audited = {
  target: nameOrId,
  refs: ['id'],
  // The URL is masked. `displayUrl`, which `look` returns, is the part of the URL that is not secret.
  secrets: ['url'],
  look: async ({ webhooks }, { id, name }) => {
    const found = (await webhooks.list()).find((one) =>
      id === undefined ? one.name === name : one.id === id,
    )
    if (found === undefined) return null
    const { displayUrl, signed, severities, monitors, runs, fleet, enabled } = found
    return { name: found.name, displayUrl, signed, severities, monitors, runs, fleet, enabled }
  },
}

export const alertsRouter = router({
  /** Lists webhooks with their deliveries of the last 24 hours. */
  list: procedure.input(nothing).query(({ ctx }) => ctx.webhooks.list()),
  /**
   * Creates a webhook.
   * @throws forbidden_url
   * @example {"name": "ops", "url": "https://hooks.example.com/rewards", "severities": ["alerting"]}
   */
  create: procedure
    .meta({ role: 'admin', audit: webhook })
    .input(WebhookInput)
    .mutation(({ ctx, input }) => ctx.webhooks.create(input, ctx.actor.name)),
  /**
   * Changes fields of a webhook.
   * @throws webhook_not_found, forbidden_url
   * @example {"id": "w1", "enabled": false}
   */
  update: procedure
    .meta({ role: 'admin', audit: webhook })
    .input(WebhookUpdate)
    .mutation(({ ctx, input }) => ctx.webhooks.update(input)),
  /**
   * Removes a webhook.
   * @throws webhook_not_found
   * @example {"id": "w1"}
   */
  remove: procedure
    .meta({ role: 'admin', audit: webhook })
    .input(WebhookRef)
    .mutation(({ ctx, input }) => ctx.webhooks.remove(input.id)),
  /**
   * Sends a test message to a webhook and returns the response.
   * @throws webhook_not_found, forbidden_url
   * @example {"id": "w1"}
   */
  test: procedure
    .meta({ role: 'admin', audit: { target: named('id') } })
    .input(WebhookRef)
    .mutation(({ ctx, input }) => ctx.webhooks.test(input.id)),
  /**
   * Lists webhook deliveries, newest first.
   * @throws cursor_mismatch
   * @example {"id": "w1"}
   */
  deliveries: procedure
    .input(DeliveriesInput.prefault({}))
    .query(({ ctx, input }) => ctx.webhooks.deliveries(input)),
})
