import { z } from 'zod'
import type { AboutDto } from '../wire/about.ts'
import type { ApiKeyDto, CreatedKeyDto, KeysDto } from '../wire/access.ts'
import { CreateKeyInput, KeyRef, RenameKeyInput, RequireKeysInput } from '../wire/access.ts'
import { type AuditEntryDto, AuditInput, type AuditPageDto } from '../wire/audit.ts'
import { ClearLimitsInput, type LimitsDto, SetLimitsInput } from '../wire/limits.ts'
import {
  DeleteRunInput,
  KeepRunInput,
  PreviewInput,
  type RetentionDto,
  type RetentionJobDto,
  RetentionJobRef,
  RetentionPolicy,
  type RetentionPreviewDto,
} from '../wire/retention.ts'
import { procedure, router } from './trpc.ts'

/** What the Settings page and its procedures call. `by` is who asks, by name. */
export interface SettingsServices {
  listKeys(): Promise<KeysDto>
  getKey(id: string): Promise<ApiKeyDto>
  createKey(input: CreateKeyInput, by: string): Promise<CreatedKeyDto>
  renameKey(id: string, name: string): Promise<ApiKeyDto>
  revokeKey(id: string, by: string): Promise<ApiKeyDto>
  requireKeys(input: RequireKeysInput, by: string): Promise<KeysDto>
  getLimits(): Promise<LimitsDto>
  setLimits(input: SetLimitsInput, by: string): Promise<LimitsDto>
  clearLimits(run: string): Promise<LimitsDto>
  getRetention(): Promise<RetentionDto>
  setRetention(policy: RetentionPolicy, by: string): Promise<RetentionDto>
  previewRetention(input: PreviewInput): Promise<RetentionPreviewDto>
  applyRetention(by: string): Promise<RetentionJobDto>
  keepRun(run: string, keep: boolean, by: string): Promise<RetentionDto>
  deleteRun(run: string, confirm: string, by: string): Promise<RetentionJobDto>
  cancelRemoval(id: string): Promise<RetentionJobDto>
  listAudit(input: AuditInput): Promise<AuditPageDto>
  /** Notes a change; one that cannot be noted is told in the log, and is made all the same. */
  noteChange(entry: Omit<AuditEntryDto, 'id' | 'at'>): Promise<void>
  about(): Promise<AboutDto>
}

const nothing = z.strictObject({}).optional()

/** Keys and their roles. */
export const keysRouter = router({
  list: procedure.input(nothing).query(({ ctx }) => ctx.services.listKeys()),
  create: procedure
    .input(CreateKeyInput)
    .mutation(({ ctx, input }) => ctx.services.createKey(input, ctx.actor.name)),
  rename: procedure
    .input(RenameKeyInput)
    .mutation(({ ctx, input }) => ctx.services.renameKey(input.id, input.name)),
  revoke: procedure
    .input(KeyRef)
    .mutation(({ ctx, input }) => ctx.services.revokeKey(input.id, ctx.actor.name)),
  require: procedure.input(RequireKeysInput).mutation(async ({ ctx, input }) => {
    const keys = await ctx.services.requireKeys(input, ctx.actor.name)
    // Whoever turns it on goes on with the key that was shown.
    if (input.required && input.key !== null) ctx.setSessionKey(input.key)
    return keys
  }),
})

/** What a run may have at once. */
export const limitsRouter = router({
  get: procedure.input(nothing).query(({ ctx }) => ctx.services.getLimits()),
  set: procedure
    .input(SetLimitsInput)
    .mutation(({ ctx, input }) => ctx.services.setLimits(input, ctx.actor.name)),
  clear: procedure
    .input(ClearLimitsInput)
    .mutation(({ ctx, input }) => ctx.services.clearLimits(input.run)),
})

/** What is kept how long. */
export const retentionRouter = router({
  get: procedure.input(nothing).query(({ ctx }) => ctx.services.getRetention()),
  preview: procedure
    .input(PreviewInput)
    .query(({ ctx, input }) => ctx.services.previewRetention(input)),
  set: procedure
    .input(RetentionPolicy)
    .mutation(({ ctx, input }) => ctx.services.setRetention(input, ctx.actor.name)),
  start: procedure
    .input(nothing)
    .mutation(({ ctx }) => ctx.services.applyRetention(ctx.actor.name)),
  keepRun: procedure
    .input(KeepRunInput)
    .mutation(({ ctx, input }) => ctx.services.keepRun(input.run, input.keep, ctx.actor.name)),
  deleteRun: procedure
    .input(DeleteRunInput)
    .mutation(({ ctx, input }) => ctx.services.deleteRun(input.run, input.confirm, ctx.actor.name)),
  cancel: procedure
    .input(RetentionJobRef)
    .mutation(({ ctx, input }) => ctx.services.cancelRemoval(input.id)),
})

/** Who changed what. */
export const auditRouter = router({
  list: procedure
    .input(AuditInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.listAudit(input)),
})

/** The service itself. */
export const aboutRouter = router({
  get: procedure.input(nothing).query(({ ctx }) => ctx.services.about()),
})
