import { appendFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/**
 * Preloaded into a service (`NODE_OPTIONS=--expose-gc --import=…`, with a file as `TELL_MEMORY_TO`): on SIGUSR2 it collects
 * all garbage and appends the remaining heap size in bytes to the file, as a line of JSON.
 */
const file = process.env.TELL_MEMORY_TO
if (isMainThread && file !== undefined && typeof gc === 'function') {
  const collect = gc
  process.on('SIGUSR2', () => {
    collect()
    appendFileSync(file, `${JSON.stringify({ heapBytes: process.memoryUsage().heapUsed })}\n`)
  })
}
