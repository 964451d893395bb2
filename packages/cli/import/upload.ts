import { CliError, EXIT } from '../exit-codes.ts'
import type { CallOptions, ServiceClient } from '../service-client.ts'
import { type ImportOptions, stepKey } from './import-options.ts'
import { StepUpload } from './step-upload.ts'
import { isUnchanged, type Survey, stepOf, userError } from './survey.ts'

/** Maximum number of rows in a chunk. The service stores such a chunk in about 0.3 s. */
const MAX_CHUNK_ROWS = 5_000
/**
 * Approximate maximum number of characters in a chunk. The service parses bodies over 1 MiB in a thread, off its event
 * loop, and refuses bodies over 256 MiB.
 */
const CHUNK_CHARS = 4 << 20
/**
 * Maximum number of characters in all incomplete chunks together. A file that mixes steps has several incomplete
 * chunks.
 */
const MAX_WAITING_CHARS = 32 << 20

export interface UploadState {
  uploads: readonly StepUpload[]
  /** Number of rows stored so far, including those of an earlier attempt. */
  stored: number
  /** Rows stored by an earlier attempt. */
  before: number
}

/**
 * Uploads the surveyed files chunk by chunk. Memory does not grow with the files.
 * @returns the uploads, all closed
 * @throws CliError with the number of rows stored
 */
export async function upload(
  surveyed: Survey,
  options: ImportOptions,
  client: ServiceClient,
  call: CallOptions,
  onProgress: (state: UploadState) => void,
): Promise<UploadState> {
  const context = { client, options, identity: surveyed.identity, call }
  const uploads = new Map<string, StepUpload>()
  for (const [key, step] of surveyed.steps) {
    const { run, split, rows } = step
    uploads.set(key, new StepUpload({ run, step: step.step, split }, rows, context))
  }
  const list = [...uploads.values()]
  const state = (): UploadState => ({
    uploads: list,
    stored: list.reduce((sum, { stored }) => sum + stored, 0),
    before: list.reduce((sum, { before }) => sum + before, 0),
  })
  let waitingChars = 0
  let sending: Promise<void> = Promise.resolve()
  const send = async (one: StepUpload) => {
    const samples = one.pending.splice(0)
    waitingChars -= one.pendingChars
    one.pendingChars = 0
    await sending
    sending = one.send(samples).then(() => onProgress(state()))
    // The error is reported where the promise is awaited: before the next chunk, or at the end.
    sending.catch(() => {})
  }
  try {
    for (const surveyedFile of surveyed.files) {
      const { file } = surveyedFile
      for await (const { rollouts } of file.lines()) {
        if (rollouts === null) continue
        for (const rollout of rollouts) {
          const one = uploads.get(stepKey(stepOf(file, rollout, options)))
          if (one === undefined) throw changed(file.path)
          const json = JSON.stringify(rollout.sample)
          one.add(json)
          waitingChars += json.length + 1
          const taken = one.sent + one.pending.length
          if (taken > one.rows) throw changed(file.path)
          if (
            taken === one.rows ||
            one.pending.length >= MAX_CHUNK_ROWS ||
            one.pendingChars >= CHUNK_CHARS
          ) {
            await send(one)
          } else if (waitingChars > MAX_WAITING_CHARS) {
            await send(list.reduce((a, b) => (b.pendingChars > a.pendingChars ? b : a)))
          }
        }
      }
      if (!(await isUnchanged(surveyedFile))) throw changed(file.path)
    }
    await sending
    const short = list.find(({ sent, rows }) => sent < rows)
    if (short) throw changed(surveyed.files[0]?.file.path ?? 'a file')
    return state()
  } catch (error) {
    await sending.catch(() => {})
    throw withProgress(userError(error), surveyed, state())
  }
}

function changed(path: string): CliError {
  return new CliError(EXIT.badInput, `${path} changed during the import.`)
}

function withProgress(error: unknown, surveyed: Survey, state: UploadState): unknown {
  if (!(error instanceof CliError)) return error
  const begun = state.uploads.filter(({ batchId }) => batchId !== null)
  if (begun.length === 0)
    return new CliError(error.exitCode, `${error.message} Nothing was stored.`, error.reason)
  const open = begun.filter(({ closed }) => !closed)
  const where = open
    .slice(0, 3)
    .map(
      (one) =>
        `${one.batchId} has ${one.stored} of the ${one.rows} rows of step ${one.step.step} and is open`,
    )
  return new CliError(
    error.exitCode,
    `${error.message} Stored so far: ${state.stored} of ${surveyed.rows} rows in ${begun.length} of ` +
      `${state.uploads.length} batches${where.length > 0 ? ` (${where.join('; ')}${open.length > 3 ? '; …' : ''})` : ''}. ` +
      'Run the same command again to continue.',
    error.reason,
  )
}
