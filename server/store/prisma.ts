import { PrismaPg } from '@prisma/adapter-pg'
import { type Database, isOutage, isRetryableConflict } from './database.ts'
import { PrismaClient as Client } from './generated/prisma/client.ts'

export type PrismaClient = ReturnType<typeof openPrisma>

/** The driver's codes for socket errors, by Prisma's code. Prisma drops the driver's code for these errors. */
const SOCKET_CODE: Readonly<Record<string, string>> = {
  P1001: 'ECONNREFUSED',
  P1008: 'ETIMEDOUT',
  P1017: 'ECONNRESET',
}

/**
 * Prisma on the pool of `db`, for tables that are written one row at a time. Its types are used only in this folder.
 * Outages and conflicts have the code of the driver, as in other statements.
 */
export function openPrisma(db: Database) {
  const client = new Client({ adapter: new PrismaPg(db.pool, { disposeExternalPool: false }) })
  return client.$extends({
    query: {
      $allOperations: ({ args, query }) =>
        query(args).catch((error: unknown) => {
          throw unwrapped(error)
        }),
    },
  })
}

/** The error of the driver in an error of Prisma, if it is an outage or a conflict; otherwise the error itself. */
function unwrapped(error: unknown): unknown {
  const { code, message, meta } = error as {
    code?: string
    message?: string
    meta?: { driverAdapterError?: { cause?: { originalCode?: string; originalMessage?: string } } }
  }
  const { originalCode, originalMessage } = meta?.driverAdapterError?.cause ?? {}
  const driver = Object.assign(new Error(originalMessage ?? message, { cause: error }), {
    code: originalCode ?? SOCKET_CODE[code ?? ''],
  })
  return isOutage(driver) || isRetryableConflict(driver) ? driver : error
}
