import { translateError } from '../api/trpc.ts'
import { createCompat } from '../http/compat/compat.ts'
import { createExport } from '../http/export.ts'
import { createImages } from '../http/images.ts'
import { createMetrics } from '../http/metrics.ts'
import { createOpenApi } from '../http/openapi.ts'
import { createRouterProxy } from '../http/proxy/router-proxy.ts'
import { createTrpcPlane } from '../http/trpc-plane.ts'
import type { Logger } from '../log.ts'
import { lastStep } from '../store/sql/last-step.ts'
import type { Background } from './background.ts'
import type { Front } from './front.ts'
import type { ServerModules } from './modules.ts'
import type { Scoring } from './scoring.ts'
import type { Stores } from './stores.ts'

export function mountApi(
  version: string,
  { access, routes }: Front,
  { ingest }: Scoring,
  modules: ServerModules,
  { databases }: Stores,
  log: Logger,
): void {
  const { manager, readiness, audit, scopes } = modules
  access.wrongKeys.onBackOff = (address, wrong) =>
    void audit.note({
      actor: 'unknown',
      role: 'viewer',
      action: 'keys.refused',
      target: address,
      changes: [{ field: 'wrongKeys', from: null, to: String(wrong) }],
    })
  routes.trpc = createTrpcPlane({ modules, ingest, access, version, log })
  routes.openApi = createOpenApi(access)
  routes.images = createImages({ db: databases.pages, access, scopes, readiness })
  routes.exports = createExport({ db: databases.background, access, scopes, readiness })
  routes.compat = createCompat({
    access,
    scopes,
    manager,
    lastStep: (run, gapMs) => lastStep(databases.api, run, gapMs),
    readiness,
  })
}

/** Opens the router address after the router has its servers. */
export function openRouterAddress(
  { access, routes }: Front,
  { servers, models }: Scoring,
  { readiness }: ServerModules,
  log: Logger,
): ReturnType<typeof createRouterProxy> {
  const proxy = createRouterProxy({
    router: servers.router,
    servers: () => servers.models.servers,
    access,
    log,
    refresh: () =>
      servers.refresh().catch((error) => {
        throw translateError(error, readiness)
      }),
    onAsleep: (model) => models.wakeModel(model),
  })
  routes.proxy = proxy.handle
  return proxy
}

export function openMetrics(
  version: string,
  { access, routes }: Front,
  { servers }: Scoring,
  { live }: ServerModules,
  { sweeps, tracing }: Background,
  { databases }: Stores,
  log: Logger,
): void {
  routes.metrics = createMetrics({
    db: databases.pages,
    access,
    version,
    own: () => servers.stats(),
    liveStreams: () => live.subscribers,
    orphanedSamples: () => sweeps.orphanedSamples,
    traces: tracing?.counts ?? null,
    log,
  })
}
