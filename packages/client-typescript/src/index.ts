/** Public API of the client for TypeScript and JavaScript. */
export type { AppRouter } from '../../../server/api/root.ts'
export type { ErrorData, ErrorReason } from '../../../server/contract/error-reasons.ts'
export type {
  BatchStatus,
  BatchSummary,
  GroupResult,
  MemberResult,
  NextResult,
  Result,
  ResultsColumns,
  SampleStatus,
  ScoreResult,
  SubmitResult,
} from '../../../server/contract/trainer.ts'
export {
  type BatchInput,
  createRewardOpsClient,
  type ExportInput,
  type RewardOpsClient,
  type RewardOpsClientOptions,
  type RewardOpsInputs,
  type RewardOpsOutputs,
} from './client.ts'
export { RewardOpsClientError, type RewardOpsReason } from './error.ts'
export { type RewardChunk, type RewardOpsApi, RewardPipeline } from './pipeline.ts'
