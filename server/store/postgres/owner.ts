import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import { isRunning, markOf, type ProcessMark } from './processes.ts'
import { DatabaseStartError } from './start-error.ts'

/**
 * Makes this process the only one that runs a Postgres in the data folder, until `release` or until the process ends.
 * An owner that died, or whose pid was reused, does not count.
 */
export async function ownFolder(
  file: string,
  options: { waitMs: number; log: Logger; signal?: AbortSignal | undefined },
): Promise<{ release(): void }> {
  const self = JSON.stringify(
    markOf(process.pid) ?? ({ pid: process.pid, startedAt: '' } satisfies ProcessMark),
  )
  const draft = `${file}.${process.pid}`
  const deadline = Date.now() + options.waitMs
  let announced = false
  for (;;) {
    options.signal?.throwIfAborted()
    writeFileSync(draft, self, { mode: 0o644 })
    try {
      // A link is created atomically, so no other process reads a partial file.
      linkSync(draft, file)
      return {
        release: () => {
          if (tryRead(file) === self) rmSync(file, { force: true })
        },
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      rmSync(draft, { force: true })
    }
    const held = tryRead(file)
    if (held === null) continue
    const owner = parse(held)
    if (owner === null || !isRunning(owner)) {
      discard(file, held)
      continue
    }
    if (Date.now() >= deadline) {
      throw new DatabaseStartError(
        'data_folder_in_use',
        `process ${owner.pid} already runs a service on this data folder (${file}). ` +
          'Stop it first, or set REWARDOPS_DATA_DIR to another folder for this one.',
      )
    }
    if (!announced) {
      announced = true
      options.log.warn(
        { owner: owner.pid, waitMs: options.waitMs },
        'another service holds the data folder; waiting for it to stop',
      )
    }
    await sleep(50)
  }
}

/** Removes a dead owner's file, unless it was replaced after it was read. */
function discard(file: string, expected: string): void {
  const aside = `${file}.${process.pid}.dead`
  try {
    renameSync(file, aside)
  } catch {
    return
  }
  if (tryRead(aside) !== expected) {
    try {
      linkSync(aside, file)
    } catch {}
  }
  rmSync(aside, { force: true })
}

function parse(text: string): ProcessMark | null {
  try {
    const value = JSON.parse(text) as Partial<ProcessMark>
    if (typeof value.pid !== 'number' || typeof value.startedAt !== 'string') return null
    return { pid: value.pid, startedAt: value.startedAt }
  } catch {
    return null
  }
}

function tryRead(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
