import { type Logger, pino } from 'pino'

export type { Logger }

/** JSON lines on stderr, so that stdout stays free for what a command prints for people. */
export function createLogger(level: string, name: string): Logger {
  return pino({ name, level, base: { pid: process.pid } }, pino.destination({ fd: 2, sync: true }))
}
