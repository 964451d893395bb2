import { type Logger, pino } from 'pino'
import { traceFields } from './trace-context.ts'

export type { Logger }

/**
 * A logger that writes JSON lines to stderr; stdout stays free for output meant for people. Lines written within a trace
 * have its `trace_id` and `span_id`.
 */
export function createLogger(level: string, name: string): Logger {
  return pino(
    { name, level, base: { pid: process.pid }, mixin: traceFields },
    pino.destination({ fd: 2, sync: true }),
  )
}
