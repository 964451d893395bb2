import { type CallRules, rulesOf } from './call-rules.ts'
import { byFilter, byRun } from './procedure-meta.ts'
import { appRouter } from './root.ts'

const { batches, samples } = appRouter

const reading = { role: 'viewer', isChange: false, forSubmitKeys: false } as const
const scoring = { role: 'trainer', isChange: true } as const

export const SURFACES = {
  export: { ...reading, runFields: byFilter },
  /** `GET /api/images/…`. `Scopes.checkImage` refuses images of runs outside the key's run prefix. */
  images: { ...reading, runFields: null },
  openapi: { ...reading, forSubmitKeys: true, runFields: null },
  metrics: { ...reading, runFields: undefined },
  models: { ...reading, runFields: null },
  /** The router address (docs/router.md), whose requests go to reward-model servers. */
  router: { ...scoring, forSubmitKeys: false, runFields: null },
  /** `/compat/…`: each request scores samples. */
  dialects: { ...scoring, forSubmitKeys: true, runFields: byRun },
  /** Procedures that also have an endpoint outside tRPC. */
  'batches.submit': rulesOf('mutation', batches.submit.meta),
  'batches.append': rulesOf('mutation', batches.append.meta),
  'samples.score': rulesOf('mutation', samples.score.meta),
} as const satisfies Record<string, CallRules>

export type SurfaceName = keyof typeof SURFACES
