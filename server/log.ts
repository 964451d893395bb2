import { type Logger, pino } from 'pino'

export type { Logger }

/** A logger that writes JSON lines to stderr; stdout stays free for output meant for people. */
export function createLogger(level: string, name: string): Logger {
  return pino({ name, level, base: { pid: process.pid } }, pino.destination({ fd: 2, sync: true }))
}
