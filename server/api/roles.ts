import type { Actor, Role } from '../contract/roles.ts'
import { mayDo } from '../contract/roles.ts'
import { RewardOpsError } from '../errors.ts'
import type { Modules } from './context.ts'

/** What is noted of a change, beside who made it and when. */
export interface Audited {
  /** What was changed, in a word or two, of the call's input and its answer. */
  target(input: Fields, output: Fields): string
  /** What it looks like; asked before and after, the difference is noted. Without it the input is. */
  look?(modules: Modules, input: Fields): Promise<unknown>
}

/** A procedure's input or answer before anything is known of it. */
export type Fields = Readonly<Record<string, unknown>>

interface MutationRow {
  role: Role
  /** Null: it changes nothing of the service's, or is what the service is for, thousands of times an hour. */
  audit: Audited | null
}

const byTrainer: MutationRow = { role: 'trainer', audit: null }
const noted = (role: Role, audit: Audited): MutationRow => ({ role, audit })
const named =
  (...fields: string[]) =>
  (input: Fields, output: Fields): string => {
    for (const from of [input, output]) {
      for (const field of fields) {
        const value = from[field]
        if (typeof value === 'string' && value !== '') return value
      }
    }
    return ''
  }

const server: Audited = {
  // The name, where the call went by number.
  target: (input, output) => named('name')(output, input) || named('id')(input, output),
  async look({ servers }, { id, name }) {
    const { state, url, engine, kind, model, weight, limit, hasFixedLimit, rpm, tpm, tags } =
      await servers.get({ id, name } as { id?: string; name?: string })
    // A limit found by measuring moves by itself.
    const maxInFlight = hasFixedLimit ? limit : null
    return { state, url, engine, kind, model, weight, maxInFlight, rpm, tpm, tags }
  },
}
const onServer = noted('admin', server)
const webhook: Audited = {
  target: (input, output) => named('name')(output, input) || named('id')(input, output),
  // Of its address what its list shows: the rest is a secret.
  look: async ({ webhooks }, { id, name }) => {
    const found = (await webhooks.list()).find((one) => one.id === id || one.name === name)
    if (found === undefined) return null
    const { displayUrl, severities, monitors, runs, fleet, enabled } = found
    return { name: found.name, displayUrl, severities, monitors, runs, fleet, enabled }
  },
}
const batch: Audited = { target: named('batchId') }
const key: Audited = {
  target: (input, output) => named('name')(output, input) || named('id')(input, output),
  look: async ({ keys }, { id }) => {
    if (typeof id !== 'string') return null
    const { name, role, expiresAt, state } = await keys.get(id)
    return { name, role, expiresAt, state }
  },
}

/**
 * Who may call what changes something, and what is noted of it. A mutation that is in no row is an admin's and is noted;
 * a test fails until it has one.
 */
export const MUTATIONS: Readonly<Record<string, MutationRow>> = {
  'batches.submit': byTrainer,
  'batches.append': byTrainer,
  'batches.close': byTrainer,
  'batches.cancel': noted('trainer', batch),
  'batches.rescore': noted('trainer', batch),
  'samples.score': byTrainer,
  'rewards.try': byTrainer,
  // Translates a text: nothing is stored, nothing is called.
  'rewards.importConfig': { role: 'viewer', audit: null },
  'demo.load': byTrainer,
  'annotations.add': byTrainer,
  'annotations.update': byTrainer,
  'annotations.remove': byTrainer,
  'views.save': byTrainer,
  'views.update': byTrainer,
  'views.remove': byTrainer,
  'marks.create': noted('trainer', { target: named('run') }),
  'marks.update': noted('trainer', { target: named('id') }),
  'marks.remove': noted('trainer', { target: named('id') }),
  'servers.register': onServer,
  'servers.launch': onServer,
  'servers.update': onServer,
  'servers.drain': onServer,
  'servers.resume': onServer,
  'servers.sleep': onServer,
  'servers.wake': onServer,
  'servers.probe': onServer,
  'servers.remove': onServer,
  'pools.update': noted('admin', {
    target: named('model'),
    look: async ({ fleet }, { model }) => {
      const pool = (await fleet.pools()).find((one) => one.model === model)
      return pool && { policy: pool.hasChosenPolicy ? pool.policy : 'default' }
    },
  }),
  'alerts.create': noted('admin', webhook),
  'alerts.update': noted('admin', webhook),
  'alerts.remove': noted('admin', webhook),
  'alerts.test': noted('admin', { target: named('id') }),
  'monitors.configure': noted('admin', {
    target: (input) =>
      `${named('monitor')(input, {})} of ${typeof input.run === 'string' ? input.run : 'every run'}`,
    look: async ({ monitors }, { run, monitor }) => {
      const settings = await monitors.settings({ run: typeof run === 'string' ? run : null })
      const found = settings.find((one) => one.monitor === monitor)
      if (found === undefined) return null
      const { enabled, warning, alerting, openAfter } = found
      return { enabled, warning, alerting, openAfter }
    },
  }),
  'keys.create': noted('admin', key),
  'keys.rename': noted('admin', key),
  'keys.revoke': noted('admin', key),
  'keys.require': noted('admin', {
    target: () => 'keys needed',
    look: async ({ keys }) => ({ needed: keys.requiresKey }),
  }),
  'limits.set': noted('admin', {
    target: (input) => (typeof input.run === 'string' ? input.run : 'every run'),
    look: async ({ limits }, { run }) => {
      const { defaults, runs } = await limits.get()
      const found = runs.find((one) => one.run === run)
      const { maxQueuedSamples, maxOpenBatches, maxPriority } = found ?? defaults
      return { maxQueuedSamples, maxOpenBatches, maxPriority }
    },
  }),
  'limits.clear': noted('admin', { target: named('run') }),
  'retention.set': noted('admin', {
    target: () => 'retention',
    look: async ({ retention }) => (await retention.get()).policy,
  }),
  'retention.start': noted('admin', { target: named('id') }),
  'retention.keepRun': noted('admin', { target: named('run') }),
  'retention.deleteRun': noted('admin', { target: named('run') }),
  'retention.cancel': noted('admin', { target: named('id') }),
}

/** Queries that are not every viewer's. */
export const QUERIES: Readonly<Record<string, Role>> = {
  'keys.list': 'admin',
  'audit.list': 'admin',
  'retention.preview': 'admin',
}

/** Signing in and out, and asking who one is: before there is a role. */
export const OPEN: ReadonlySet<string> = new Set([
  'session.get',
  'session.signIn',
  'session.signOut',
])

/** What is not called through a procedure, and who may use it. */
const SURFACES = {
  /** `GET /api/export/…`. */
  export: 'viewer',
  /** `GET /api/openapi.json`. */
  openapi: 'viewer',
  /** `GET /metrics`. */
  metrics: 'viewer',
  /** `GET /v1/models`. */
  models: 'viewer',
  /** The router address: calls cost the servers' time. */
  router: 'trainer',
  /** `/compat/…`: each request scores samples. */
  dialects: 'trainer',
  /** `batches.submit`, `batches.append` and `samples.score` where they are answered beside tRPC. */
  'batches.submit': 'trainer',
  'batches.append': 'trainer',
  'samples.score': 'trainer',
} as const satisfies Record<string, Role>

/** A part of the service that is not a procedure. */
export type SurfaceName = keyof typeof SURFACES

/** The least role that may use it. */
export function surfaceRole(surface: SurfaceName): Role {
  return SURFACES[surface]
}

/** The least role that may call a procedure. */
export function roleNeeded(path: string, type: 'query' | 'mutation' | 'subscription'): Role {
  return type === 'mutation' ? (MUTATIONS[path]?.role ?? 'admin') : (QUERIES[path] ?? 'viewer')
}

/** Throws `forbidden_role`: which role is needed, and which the key has. */
export function checkRole(actor: Actor, needed: Role, what: string): void {
  if (mayDo(actor.role, needed)) return
  throw new RewardOpsError(
    'forbidden_role',
    `${what} needs the role ${needed}, and the key "${actor.name}" has the role ${actor.role}.`,
  )
}
