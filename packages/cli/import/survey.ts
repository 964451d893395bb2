import { createHash } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CliError, EXIT } from '../exit-codes.ts'
import {
  openRollouts,
  type Rollout,
  type RolloutFile,
  RolloutFileError,
} from '../rollouts/read-rollouts.ts'
import { type ImportOptions, type ImportStep, stepKey } from './import-options.ts'

export interface SurveyedFile {
  file: RolloutFile
  bytes: number
  modifiedMs: number
}

export interface Survey {
  files: SurveyedFile[]
  steps: Map<string, ImportStep & { rows: number; unscored: number }>
  rows: number
  badRows: number
  /** The first bad rows, as `file:line: problem`. */
  firstBad: string[]
  /** Hash of the files' bytes and the options. A repeated import has the same hash. */
  identity: string
}

const MAX_LISTED_BAD_ROWS = 10

/**
 * Reads every file to its end and checks each row as the service would. Memory grows with the number of steps, not of
 * rows.
 * @throws CliError for a file that cannot be read, or that names no run or step
 */
export async function survey(
  paths: readonly string[],
  options: ImportOptions,
  onProgress: (readBytes: number, totalBytes: number, rows: number) => void,
  signal: AbortSignal,
): Promise<Survey> {
  const files = await openAll(await expand(paths), options)
  const totalBytes = files.reduce((sum, { bytes }) => sum + bytes, 0)
  const result: Survey = {
    files,
    steps: new Map(),
    rows: 0,
    badRows: 0,
    firstBad: [],
    identity: '',
  }
  const identity = createHash('sha256').update(JSON.stringify(options))
  let readBytes = 0
  for (const { file } of files) {
    const content = createHash('sha256')
    const onBytes = (bytes: Buffer) => {
      content.update(bytes)
      readBytes += bytes.length
    }
    try {
      for await (const { rollouts, error } of file.lines(onBytes)) {
        if (signal.aborted) throw new CliError(EXIT.interrupted, 'Stopped; nothing was sent.')
        if (error !== null) {
          result.badRows++
          if (result.firstBad.length < MAX_LISTED_BAD_ROWS) result.firstBad.push(error.message)
          continue
        }
        for (const rollout of rollouts) count(result, file, rollout, options)
        onProgress(readBytes, totalBytes, result.rows)
      }
    } catch (error) {
      throw userError(error)
    }
    identity.update(content.digest())
  }
  result.identity = identity.digest('hex')
  return result
}

function count(result: Survey, file: RolloutFile, rollout: Rollout, options: ImportOptions): void {
  const step = stepOf(file, rollout, options)
  const key = stepKey(step)
  let seen = result.steps.get(key)
  if (!seen) {
    seen = { ...step, rows: 0, unscored: 0 }
    result.steps.set(key, seen)
  }
  seen.rows++
  if (typeof rollout.sample.score !== 'number') seen.unscored++
  result.rows++
}

/** @throws CliError when neither the row nor the options name the run or step */
export function stepOf(file: RolloutFile, rollout: Rollout, options: ImportOptions): ImportStep {
  const run = options.run ?? rollout.run
  const step = options.step ?? rollout.step
  if (run === null) {
    throw new CliError(
      EXIT.badInput,
      `${file.path} names no run: give --run NAME. Nothing was sent.`,
    )
  }
  if (step === null) {
    throw new CliError(
      EXIT.badInput,
      `${file.path} names no step: give --step N. Nothing was sent.`,
    )
  }
  return { run, step, split: options.split ?? rollout.split ?? 'train' }
}

/** Replaces each folder with its rollout files, sorted by name with numbers in numeric order. */
async function expand(paths: readonly string[]): Promise<string[]> {
  const files: string[] = []
  for (const path of paths) {
    const info = await stat(path).catch(() => null)
    if (info === null) throw new CliError(EXIT.badInput, `${path}: no such file`)
    if (!info.isDirectory()) {
      files.push(path)
      continue
    }
    const names = (await readdir(path)).filter((name) =>
      /\.((jsonl|csv)(\.gz)?|parquet)$/.test(name),
    )
    if (names.length === 0) {
      throw new CliError(
        EXIT.badInput,
        `${path}: contains no .parquet file, and no .jsonl or .csv file, gzipped or not`,
      )
    }
    names.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    files.push(...names.map((name) => join(path, name)))
  }
  return files
}

async function openAll(paths: readonly string[], options: ImportOptions): Promise<SurveyedFile[]> {
  const files: SurveyedFile[] = []
  for (const path of paths) {
    try {
      const file = await openRollouts(path, {
        scores: options.scores,
        ...(options.dataSource === null ? {} : { dataSource: options.dataSource }),
      })
      const { size, mtimeMs } = await stat(path)
      files.push({ file, bytes: size, modifiedMs: mtimeMs })
    } catch (error) {
      throw userError(error)
    }
  }
  return files
}

export async function isUnchanged({ file, bytes, modifiedMs }: SurveyedFile): Promise<boolean> {
  const info = await stat(file.path).catch(() => null)
  return info?.size === bytes && info.mtimeMs === modifiedMs
}

export function userError(error: unknown): unknown {
  return error instanceof RolloutFileError ? new CliError(EXIT.badInput, error.message) : error
}
