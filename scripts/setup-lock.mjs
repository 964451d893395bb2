import { createHash } from 'node:crypto'
import { linkSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Maximum age of a lock. No set-up takes this long, so the process of an older lock is dead and its pid was reused. */
const STALE_MS = 30 * 60_000

/**
 * Lets one process at a time set up a checkout; the others wait and then have nothing to do. The lock is
 * outside the checkout, because `npm ci` empties node_modules. It is in the machine's own temporary folder, because the
 * pid in it is valid only on this machine.
 * @param {string} root
 * @param {() => Promise<void>} work
 */
export async function withSetupLock(root, work) {
  const key = createHash('sha256').update(realpathSync(root)).digest('hex').slice(0, 12)
  const lock = join(tmpdir(), `rewardops-setup-${process.getuid?.() ?? 0}-${key}`)
  const draft = `${lock}.${process.pid}`
  let announced = false
  for (;;) {
    writeFileSync(draft, String(process.pid))
    try {
      // A link is created atomically with the content of the draft, so a lock always names a pid.
      linkSync(draft, lock)
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    } finally {
      rmSync(draft, { force: true })
    }
    const holder = readHolder(lock)
    if (holder === null) continue
    if (!isAlive(holder.pid) || holder.ageMs > STALE_MS) {
      rmSync(lock, { force: true })
      continue
    }
    if (!announced) process.stderr.write(`waiting for process ${holder.pid} to finish the set-up\n`)
    announced = true
    await sleep(100)
  }
  const release = () => rmSync(lock, { force: true })
  process.once('exit', release)
  try {
    await work()
  } finally {
    process.off('exit', release)
    release()
  }
}

function readHolder(lock) {
  try {
    return { pid: Number(readFileSync(lock, 'utf8')), ageMs: Date.now() - statSync(lock).mtimeMs }
  } catch {
    return null
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
