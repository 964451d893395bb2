import type { Visit } from '../prompt-visits.ts'

/**
 * The visits of a prompt as stored in `prompt.history`: step, batch, group, scored and passed (−1 if unknown) as
 * 32-bit integers, mean and standard deviation as 64-bit floats, little-endian. Separate array columns took
 * Postgres and Node twice as long.
 */

const BYTES = 36
const NO_PASSES = -1

export function encodeVisits(visits: readonly Visit[]): Buffer {
  const bytes = Buffer.allocUnsafe(visits.length * BYTES)
  for (const [i, visit] of visits.entries()) {
    const at = i * BYTES
    bytes.writeInt32LE(visit.step, at)
    bytes.writeInt32LE(visit.batchId, at + 4)
    bytes.writeInt32LE(visit.group, at + 8)
    bytes.writeInt32LE(visit.scored, at + 12)
    bytes.writeInt32LE(visit.passed ?? NO_PASSES, at + 16)
    bytes.writeDoubleLE(visit.mean, at + 20)
    bytes.writeDoubleLE(visit.std, at + 28)
  }
  return bytes
}

export function decodeVisits(bytes: Buffer): Visit[] {
  const visits: Visit[] = []
  for (let at = 0; at < bytes.length; at += BYTES) {
    const passed = bytes.readInt32LE(at + 16)
    visits.push({
      step: bytes.readInt32LE(at),
      batchId: bytes.readInt32LE(at + 4),
      group: bytes.readInt32LE(at + 8),
      scored: bytes.readInt32LE(at + 12),
      passed: passed === NO_PASSES ? null : passed,
      mean: bytes.readDoubleLE(at + 20),
      std: bytes.readDoubleLE(at + 28),
    })
  }
  return visits
}
