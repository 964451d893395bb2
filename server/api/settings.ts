import {
  CreateKeyInput,
  KeyRef,
  LoginSessionRef,
  RenameKeyInput,
  RequireKeysInput,
  RotateKeyInput,
} from '../contract/access.ts'
import { AuditInput } from '../contract/audit.ts'
import { ClearLimitsInput, SetLimitsInput } from '../contract/limits.ts'
import {
  DeleteRunInput,
  KeepRunInput,
  PreviewInput,
  RetentionJobRef,
  RetentionPolicy,
} from '../contract/retention.ts'
import { type Audited, named, nameOrId } from './procedure-meta.ts'
import { nothing, procedure, router } from './trpc.ts'

const key: Audited = {
  target: nameOrId,
  refs: ['id'],
  look: async ({ keys }, { id }) => {
    if (typeof id !== 'string') return null
    const { name, role, access, runPrefix, expiresAt, previousUntil, state } = await keys.get(id)
    return { name, role, access, runPrefix, expiresAt, previousUntil, state }
  },
}

export const keysRouter = router({
  /** Lists API keys, without the keys themselves. */
  list: procedure
    .meta({ role: 'admin' })
    .input(nothing)
    .query(({ ctx }) => ctx.keys.list()),
  /**
   * Creates an API key. Only this answer contains the key.
   * @throws name_taken, too_many_keys
   * @example {"name": "ppo on node-3", "role": "trainer", "expiresInDays": 90}
   */
  create: procedure
    .meta({ role: 'admin', audit: key })
    .input(CreateKeyInput)
    .mutation(({ ctx, input }) => ctx.keys.create(input, ctx.actor.name)),
  /**
   * Renames an API key.
   * @throws key_not_found, name_taken
   * @example {"id": "k7", "name": "ppo on node-4"}
   */
  rename: procedure
    .meta({ role: 'admin', audit: key })
    .input(RenameKeyInput)
    .mutation(({ ctx, input }) => ctx.keys.rename(input.id, input.name)),
  /**
   * Revokes an API key. All processes refuse it within about 2 s.
   * @throws key_not_found, last_admin_key
   * @example {"id": "k7"}
   */
  revoke: procedure
    .meta({ role: 'admin', audit: key })
    .input(KeyRef)
    .mutation(({ ctx, input }) => ctx.keys.revoke(input.id, ctx.actor.name)),
  /**
   * Replaces an API key with a new one of the same name, role and expiry. The previous key stays valid for
   * `overlapHours`, so that clients can switch to the new key; 0 revokes the previous key and ends its sessions
   * immediately. Only this answer contains the new key.
   * @throws key_not_found
   * @example {"id": "k7", "overlapHours": 24}
   */
  rotate: procedure
    .meta({ role: 'admin', audit: key })
    .input(RotateKeyInput)
    .mutation(({ ctx, input }) => ctx.keys.rotate(input)),
  /**
   * Requires an API key for every call, or stops requiring one.
   * @throws admin_key_needed, keys_configured
   * @example {"required": true, "key": "rwo_…"}
   */
  require: procedure
    .meta({
      role: 'admin',
      audit: {
        target: () => 'API keys required',
        refs: ['key'],
        look: async ({ keys }) => ({ required: keys.requiresKey }),
      },
    })
    .input(RequireKeysInput)
    .mutation(async ({ ctx, input }) => {
      const keys = await ctx.keys.require(input, ctx.actor.name)
      // Keep the caller signed in, with the given key.
      if (input.required && input.key !== null) await ctx.signIn(input.key)
      return keys
    }),
})

export const sessionsRouter = router({
  /** Lists open login sessions, most recently used first. */
  list: procedure
    .meta({ role: 'admin' })
    .input(nothing)
    .query(({ ctx }) => ctx.keys.listSessions(ctx.actor.session)),
  /**
   * Ends a login session. Within 2 s, its open pages switch to the sign-in page, and its streams and long polls end in
   * all processes.
   * @throws session_not_found
   * @example {"id": "l7"}
   */
  end: procedure
    .meta({ role: 'admin', audit: { target: named('id') } })
    .input(LoginSessionRef)
    .mutation(async ({ ctx, input }) => {
      await ctx.keys.endSession(input.id)
      return { ended: 1 }
    }),
  /** Ends all login sessions except the caller's. Returns their number. */
  endOthers: procedure
    .meta({ role: 'admin', audit: { target: () => 'all other sessions' } })
    .input(nothing)
    .mutation(async ({ ctx }) => ({
      ended: await ctx.keys.endOtherSessions(ctx.actor.session),
    })),
})

export const limitsRouter = router({
  /** Returns the default limits and the limits set for single runs. */
  get: procedure.input(nothing).query(({ ctx }) => ctx.limits.get()),
  /**
   * Sets the limits of a run, or the default limits. The new limits replace all previous ones.
   * @example {"run": "gsm8k-grpo", "limits": {"maxQueuedSamples": 200000, "maxOpenBatches": 8, "maxPriority": null}}
   */
  set: procedure
    .meta({
      role: 'admin',
      audit: {
        target: (input) => (typeof input.run === 'string' ? input.run : 'every run'),
        // `look` already records the fields of `limits`, so `refs` excludes `limits` from the other recorded fields.
        refs: ['run', 'limits'],
        look: async ({ limits }, { run }) => {
          const { defaults, runs } = await limits.get()
          const found = runs.find((one) => one.run === run)
          const { maxQueuedSamples, maxOpenBatches, maxPriority } = found ?? defaults
          return { maxQueuedSamples, maxOpenBatches, maxPriority }
        },
      },
    })
    .input(SetLimitsInput)
    .mutation(({ ctx, input }) => ctx.limits.set(input, ctx.actor.name)),
  /**
   * Removes the limits of a run; the default limits apply to it again.
   * @example {"run": "gsm8k-grpo"}
   */
  clear: procedure
    .meta({ role: 'admin', audit: { target: named('run') } })
    .input(ClearLimitsInput)
    .mutation(({ ctx, input }) => ctx.limits.clear(input.run)),
})

export const retentionRouter = router({
  /** Returns the retention policy, the last removals and the kept runs. */
  get: procedure.input(nothing).query(({ ctx }) => ctx.retention.get()),
  /**
   * Returns the amount of data that a policy or the deletion of a run would remove now.
   * @throws run_not_found
   * @example {"policy": {"textsDays": 30, "batchesDays": null, "keepRollUps": true, "eventsDays": 90, "auditDays":
   * 365}}
   */
  preview: procedure
    .meta({ role: 'admin' })
    .input(PreviewInput)
    .query(({ ctx, input }) => ctx.retention.preview(input)),
  /**
   * Sets the retention policy.
   * @example {"textsDays": 30, "batchesDays": null, "keepRollUps": true, "eventsDays": 90, "auditDays": 365}
   */
  set: procedure
    .meta({
      role: 'admin',
      audit: {
        target: () => 'retention',
        look: async ({ retention }) => (await retention.get()).policy,
      },
    })
    .input(RetentionPolicy)
    .mutation(({ ctx, input }) => ctx.retention.set(input, ctx.actor.name)),
  /**
   * Applies the retention policy now.
   * @throws removal_under_way
   */
  start: procedure
    .meta({ role: 'admin', audit: { target: named('id') } })
    .input(nothing)
    .mutation(({ ctx }) => ctx.retention.apply(ctx.actor.name)),
  /**
   * Excludes a run from the retention policy, or includes it again.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo", "keep": true}
   */
  keepRun: procedure
    .meta({ role: 'admin', audit: { target: named('run') } })
    .input(KeepRunInput)
    .mutation(({ ctx, input }) => ctx.retention.keepRun(input.run, input.keep, ctx.actor.name)),
  /**
   * Deletes a run with all its data.
   * @throws run_not_found, not_confirmed, run_busy, removal_under_way
   * @example {"run": "gsm8k-grpo", "confirm": "gsm8k-grpo"}
   */
  deleteRun: procedure
    .meta({ role: 'admin', audit: { target: named('run') } })
    .input(DeleteRunInput)
    .mutation(({ ctx, input }) =>
      ctx.retention.deleteRun(input.run, input.confirm, ctx.actor.name),
    ),
  /**
   * Cancels a removal. Batches that it has not begun to remove are kept.
   * @throws not_found
   * @example {"id": "r3"}
   */
  cancel: procedure
    .meta({ role: 'admin', audit: { target: named('id') } })
    .input(RetentionJobRef)
    .mutation(({ ctx, input }) => ctx.retention.cancel(input.id)),
})

export const auditRouter = router({
  /**
   * Lists the changes in the audit log, newest first. An `action` that ends with a dot matches all procedures of a
   * namespace.
   * @example {"action": "servers."}
   */
  list: procedure
    .meta({ role: 'admin' })
    .input(AuditInput.prefault({}))
    .query(({ ctx, input }) => ctx.audit.list(input)),
})

export const aboutRouter = router({
  /** Returns the version, the sizes of stored data and the settings in force. Only admins see files and folders. */
  get: procedure.input(nothing).query(({ ctx }) => ctx.about.get(ctx.actor.role)),
})
