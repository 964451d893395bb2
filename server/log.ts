import { type Logger, pino } from 'pino'
import { traceFields } from './trace-context.ts'

export type { Logger }

/**
 * Returns a logger that writes JSON lines to stderr, so that stdout stays free for output meant for people. Lines
 * written within a trace have the `trace_id` and `span_id` of the trace.
 */
export function createLogger(level: string, name: string): Logger {
  return pino(
    { name, level, base: { pid: process.pid }, mixin: traceFields },
    pino.destination({ fd: 2, sync: true }),
  )
}
