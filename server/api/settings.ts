import { z } from 'zod'
import { CreateKeyInput, KeyRef, RenameKeyInput, RequireKeysInput } from '../contract/access.ts'
import { AuditInput } from '../contract/audit.ts'
import { ClearLimitsInput, SetLimitsInput } from '../contract/limits.ts'
import {
  DeleteRunInput,
  KeepRunInput,
  PreviewInput,
  RetentionJobRef,
  RetentionPolicy,
} from '../contract/retention.ts'
import { procedure, router } from './trpc.ts'

const nothing = z.strictObject({}).optional()

/** Keys and their roles. */
export const keysRouter = router({
  list: procedure.input(nothing).query(({ ctx }) => ctx.keys.list()),
  create: procedure
    .input(CreateKeyInput)
    .mutation(({ ctx, input }) => ctx.keys.create(input, ctx.actor.name)),
  rename: procedure
    .input(RenameKeyInput)
    .mutation(({ ctx, input }) => ctx.keys.rename(input.id, input.name)),
  revoke: procedure
    .input(KeyRef)
    .mutation(({ ctx, input }) => ctx.keys.revoke(input.id, ctx.actor.name)),
  require: procedure.input(RequireKeysInput).mutation(async ({ ctx, input }) => {
    const keys = await ctx.keys.require(input, ctx.actor.name)
    // Whoever turns it on goes on with the key that was shown.
    if (input.required && input.key !== null) ctx.setSessionKey(input.key)
    return keys
  }),
})

/** What a run may have at once. */
export const limitsRouter = router({
  get: procedure.input(nothing).query(({ ctx }) => ctx.limits.get()),
  set: procedure
    .input(SetLimitsInput)
    .mutation(({ ctx, input }) => ctx.limits.set(input, ctx.actor.name)),
  clear: procedure
    .input(ClearLimitsInput)
    .mutation(({ ctx, input }) => ctx.limits.clear(input.run)),
})

/** What is kept how long. */
export const retentionRouter = router({
  get: procedure.input(nothing).query(({ ctx }) => ctx.retention.get()),
  preview: procedure.input(PreviewInput).query(({ ctx, input }) => ctx.retention.preview(input)),
  set: procedure
    .input(RetentionPolicy)
    .mutation(({ ctx, input }) => ctx.retention.set(input, ctx.actor.name)),
  start: procedure.input(nothing).mutation(({ ctx }) => ctx.retention.apply(ctx.actor.name)),
  keepRun: procedure
    .input(KeepRunInput)
    .mutation(({ ctx, input }) => ctx.retention.keepRun(input.run, input.keep, ctx.actor.name)),
  deleteRun: procedure
    .input(DeleteRunInput)
    .mutation(({ ctx, input }) =>
      ctx.retention.deleteRun(input.run, input.confirm, ctx.actor.name),
    ),
  cancel: procedure
    .input(RetentionJobRef)
    .mutation(({ ctx, input }) => ctx.retention.cancel(input.id)),
})

/** Who changed what. */
export const auditRouter = router({
  list: procedure.input(AuditInput.prefault({})).query(({ ctx, input }) => ctx.audit.list(input)),
})

/** The service itself. */
export const aboutRouter = router({
  get: procedure.input(nothing).query(({ ctx }) => ctx.about.get()),
})
