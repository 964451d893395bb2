import { PrismaPg } from '@prisma/adapter-pg'
import type { Database } from './database.ts'
import { PrismaClient } from './generated/prisma/client.ts'

/**
 * Prisma on the pool of `db`, for tables that are written one row at a time. Its types are used only in this folder.
 */
export function openPrisma(db: Database): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg(db.pool, { disposeExternalPool: false }) })
}

export type { PrismaClient }
