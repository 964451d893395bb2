import { CliError, EXIT } from '../exit-codes.ts'
import type { CallOptions, ServiceClient } from '../service-client.ts'
import { type ImportOptions, stepKey } from './import-options.ts'
import { StepUpload } from './step-upload.ts'
import { isUnchanged, type Survey, stepOf, told } from './survey.ts'

/** A chunk's rows, at most: stored in about 0.3 s. */
const CHUNK_ROWS = 5_000
/** A chunk's characters, about: over the 1 MiB from which the service parses beside its loop, far under its 256 MiB. */
const CHUNK_CHARS = 4 << 20
/** Rows of files whose steps are mixed wait for their chunks; together they have at most so many characters. */
const WAITING_CHARS = 32 << 20

/** How far an upload is. */
export interface UploadState {
  uploads: readonly StepUpload[]
  /** Rows stored, those of an earlier try included. */
  stored: number
  /** Of these, of an earlier try. */
  before: number
}

/**
 * Sends what was surveyed, a chunk at a time: while one is stored the next is read, and no more, so that memory stays the
 * same however long the files are.
 * @returns the uploads, all closed
 * @throws CliError that tells what had been stored
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
    // Told where it is waited for: before the next chunk, or at the end.
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
            one.pending.length >= CHUNK_ROWS ||
            one.pendingChars >= CHUNK_CHARS
          ) {
            await send(one)
          } else if (waitingChars > WAITING_CHARS) {
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
    throw withWhatWasDone(told(error), surveyed, state())
  }
}

function changed(path: string): CliError {
  return new CliError(EXIT.badInput, `${path} changed while it was imported.`)
}

/** What stands is said, and what to do: the same command goes on where it stopped. */
function withWhatWasDone(error: unknown, surveyed: Survey, state: UploadState): unknown {
  if (!(error instanceof CliError)) return error
  const begun = state.uploads.filter(({ batchId }) => batchId !== null)
  if (begun.length === 0)
    return new CliError(error.exitCode, `${error.message} Nothing was stored.`, error.reason)
  const open = begun.filter(({ closed }) => !closed)
  const where = open
    .slice(0, 3)
    .map(
      (one) =>
        `${one.batchId} has ${one.stored} of step ${one.step.step}'s ${one.rows} and is open`,
    )
  return new CliError(
    error.exitCode,
    `${error.message} Stored so far: ${state.stored} of ${surveyed.rows} rows in ${begun.length} of ` +
      `${state.uploads.length} batches${where.length > 0 ? ` (${where.join('; ')}${open.length > 3 ? '; …' : ''})` : ''}. ` +
      'The same command goes on from there.',
    error.reason,
  )
}
