import { PrismaPg } from '@prisma/adapter-pg'
import type { Database } from './database.ts'
import { PrismaClient } from './generated/prisma/client.ts'

/** Prisma over the same pool: for what is written one row at a time. Its types stop at this folder. */
export function openPrisma(db: Database): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg(db.pool, { disposeExternalPool: false }) })
}

export type { PrismaClient }
