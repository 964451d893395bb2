import { appendFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/**
 * Loaded into a service before it starts (`NODE_OPTIONS=--expose-gc --import=…`, `TELL_MEMORY_TO` a file): at SIGUSR2 it
 * collects all garbage and appends to the file, as a line of JSON, how many bytes are left on the heap.
 */
const file = process.env.TELL_MEMORY_TO
if (isMainThread && file !== undefined && typeof gc === 'function') {
  const collect = gc
  process.on('SIGUSR2', () => {
    collect()
    appendFileSync(file, `${JSON.stringify({ heapBytes: process.memoryUsage().heapUsed })}\n`)
  })
}
