import type { z } from 'zod'
import type { ProcedureMeta } from '../../server/api/procedure-meta.ts'
import { appRouter } from '../../server/api/root.ts'

export interface AnyProcedure {
  _def: {
    type: 'query' | 'mutation' | 'subscription'
    inputs: z.ZodType[]
    meta?: ProcedureMeta
  }
}

/** Every procedure of the router by its path, so that tests leave none out. */
export const PROCEDURES = Object.entries(
  appRouter._def.procedures as unknown as Record<string, AnyProcedure>,
)
