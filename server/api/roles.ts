import type { Actor, Role } from '../contract/roles.ts'
import { mayDo } from '../contract/roles.ts'
import type { ServerRef } from '../contract/servers.ts'
import { RewardOpsError } from '../errors.ts'
import { settingsOfRow } from '../store/sql/servers.ts'
import type { Modules } from './context.ts'

/** The content of a mutation's audit entry, in addition to the caller and the time. */
export interface Audited {
  /** Returns the name of the changed object, from input or output. */
  target(input: Fields, output: Fields): string
  /**
   * Reads the changed object before and after the mutation; changed fields are recorded. Input fields that the object
   * does not have are recorded as given.
   */
  look?(modules: Modules, input: Fields): Promise<unknown>
  /** Input fields that identify the object or the caller and change nothing. Only used with `look`. */
  refs?: readonly string[]
  /** Input fields that are recorded without their values, in addition to the fields with secret names. */
  secrets?: readonly string[]
}

/** The fields of an input or output of any procedure. */
export type Fields = Readonly<Record<string, unknown>>

interface MutationRow {
  role: Role
  /** Null: the mutation is not recorded, because it changes nothing or is routine work. */
  audit: Audited | null
}

const byTrainer: MutationRow = { role: 'trainer', audit: null }
const recorded = (role: Role, audit: Audited): MutationRow => ({ role, audit })
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
  // The target is the server's name, even if the caller gave its id.
  target: (input, output) => named('name')(output, input) || named('id')(input, output),
  refs: ['id', 'name'],
  // A command may contain keys. The stored command, which `look` returns, is masked.
  secrets: ['command'],
  async look({ models }, { id, name }) {
    const row = await models.find({ id, name } as ServerRef)
    const { state, url, engine, kind, model, launch } = row
    return {
      ...{ state, url, engine, kind, model, ...settingsOfRow(row) },
      ...(launch && { command: launch.argv, cwd: launch.cwd }),
    }
  },
}
const onServer = recorded('admin', server)
const webhook: Audited = {
  target: (input, output) => named('name')(output, input) || named('id')(input, output),
  refs: ['id'],
  // `look` returns the part of the URL that is not secret.
  secrets: ['url'],
  look: async ({ webhooks }, { id, name }) => {
    const found = (await webhooks.list()).find((one) =>
      id === undefined ? one.name === name : one.id === id,
    )
    if (found === undefined) return null
    const { displayUrl, signed, severities, monitors, runs, fleet, enabled } = found
    return { name: found.name, displayUrl, signed, severities, monitors, runs, fleet, enabled }
  },
}
const batch: Audited = { target: named('batchId') }
const key: Audited = {
  target: (input, output) => named('name')(output, input) || named('id')(input, output),
  refs: ['id'],
  look: async ({ keys }, { id }) => {
    if (typeof id !== 'string') return null
    const { name, role, access, runPrefix, expiresAt, previousUntil, state } = await keys.get(id)
    return { name, role, access, runPrefix, expiresAt, previousUntil, state }
  },
}

/**
 * The role and the audit entry of every mutation. A mutation that is not listed requires the role admin and is
 * recorded; roles.test.ts fails until it is listed.
 */
export const MUTATIONS: Readonly<Record<string, MutationRow>> = {
  'batches.submit': byTrainer,
  'batches.append': byTrainer,
  'batches.close': byTrainer,
  'batches.cancel': recorded('trainer', batch),
  'batches.rescore': recorded('trainer', batch),
  'samples.score': byTrainer,
  'rewards.try': byTrainer,
  // The call stores nothing.
  'rewards.importConfig': { role: 'viewer', audit: null },
  'demo.load': byTrainer,
  'annotations.add': byTrainer,
  'annotations.update': byTrainer,
  'annotations.remove': byTrainer,
  'views.save': byTrainer,
  'views.update': byTrainer,
  'views.remove': byTrainer,
  'marks.create': recorded('trainer', { target: named('run') }),
  'marks.update': recorded('trainer', { target: named('id') }),
  'marks.remove': recorded('trainer', { target: named('id') }),
  'runs.update': recorded('trainer', {
    target: named('run'),
    refs: ['run', 'addTags', 'removeTags'],
    look: async ({ runConfigs }, { run }) => {
      const { config, tags } = await runConfigs.get(String(run))
      return { config, tags }
    },
  }),
  'servers.register': onServer,
  'servers.launch': onServer,
  'servers.update': onServer,
  'servers.drain': onServer,
  'servers.resume': onServer,
  'servers.sleep': onServer,
  'servers.wake': onServer,
  'servers.probe': onServer,
  'servers.remove': onServer,
  'pools.update': recorded('admin', {
    target: named('model'),
    refs: ['model'],
    look: async ({ fleet }, { model }) => {
      const pool = (await fleet.pools()).find((one) => one.model === model)
      return pool && { policy: pool.hasChosenPolicy ? pool.policy : 'default' }
    },
  }),
  'alerts.create': recorded('admin', webhook),
  'alerts.update': recorded('admin', webhook),
  'alerts.remove': recorded('admin', webhook),
  'alerts.test': recorded('admin', { target: named('id') }),
  'monitors.configure': recorded('admin', {
    target: (input) =>
      `${named('monitor')(input, {})} of ${typeof input.run === 'string' ? input.run : 'every run'}`,
    refs: ['run', 'monitor'],
    look: async ({ monitors }, { run, monitor }) => {
      const settings = await monitors.settings({ run: typeof run === 'string' ? run : null })
      const found = settings.find((one) => one.monitor === monitor)
      if (found === undefined) return null
      const { enabled, warning, alerting, openAfter } = found
      return { enabled, warning, alerting, openAfter }
    },
  }),
  'keys.create': recorded('admin', key),
  'keys.rename': recorded('admin', key),
  'keys.rotate': recorded('admin', key),
  'keys.revoke': recorded('admin', key),
  'keys.require': recorded('admin', {
    target: () => 'API keys required',
    refs: ['key'],
    look: async ({ keys }) => ({ required: keys.requiresKey }),
  }),
  'sessions.end': recorded('admin', { target: named('id') }),
  'sessions.endOthers': recorded('admin', { target: () => 'all other sessions' }),
  'limits.set': recorded('admin', {
    target: (input) => (typeof input.run === 'string' ? input.run : 'every run'),
    // `look` returns the fields of `limits`.
    refs: ['run', 'limits'],
    look: async ({ limits }, { run }) => {
      const { defaults, runs } = await limits.get()
      const found = runs.find((one) => one.run === run)
      const { maxQueuedSamples, maxOpenBatches, maxPriority } = found ?? defaults
      return { maxQueuedSamples, maxOpenBatches, maxPriority }
    },
  }),
  'limits.clear': recorded('admin', { target: named('run') }),
  'retention.set': recorded('admin', {
    target: () => 'retention',
    look: async ({ retention }) => (await retention.get()).policy,
  }),
  'retention.start': recorded('admin', { target: named('id') }),
  'retention.keepRun': recorded('admin', { target: named('run') }),
  'retention.deleteRun': recorded('admin', { target: named('run') }),
  'retention.cancel': recorded('admin', { target: named('id') }),
}

/** Queries that require a higher role than viewer. */
export const QUERIES: Readonly<Record<string, Role>> = {
  'keys.list': 'admin',
  'sessions.list': 'admin',
  'audit.list': 'admin',
  'retention.preview': 'admin',
  // The output of a server may contain texts of all runs, and paths of the machine.
  'servers.log': 'admin',
}

/** Procedures that require no role, because they are called before signing in. */
export const OPEN: ReadonlySet<string> = new Set([
  'session.get',
  'session.signIn',
  'session.signOut',
])

/** Endpoints outside tRPC, with the minimum role of each. */
const SURFACES = {
  /** `GET /api/export/…`. */
  export: 'viewer',
  /** `GET /api/images/…`. */
  images: 'viewer',
  /** `GET /api/openapi.json`. */
  openapi: 'viewer',
  /** `GET /metrics`. */
  metrics: 'viewer',
  /** `GET /v1/models`. */
  models: 'viewer',
  /** The router address. Its requests use the reward-model servers. */
  router: 'trainer',
  /** `/compat/…`: each request scores samples. */
  dialects: 'trainer',
  /** Procedures that also have an endpoint outside tRPC. */
  'batches.submit': 'trainer',
  'batches.append': 'trainer',
  'samples.score': 'trainer',
} as const satisfies Record<string, Role>

export type SurfaceName = keyof typeof SURFACES

export function surfaceRole(surface: SurfaceName): Role {
  return SURFACES[surface]
}

export function roleNeeded(path: string, type: 'query' | 'mutation' | 'subscription'): Role {
  return type === 'mutation' ? (MUTATIONS[path]?.role ?? 'admin') : (QUERIES[path] ?? 'viewer')
}

/** Checks the caller's role. @throws RewardOpsError `forbidden_role` with the required role and the role of the key */
export function checkRole(actor: Actor, needed: Role, what: string): void {
  if (mayDo(actor.role, needed)) return
  throw new RewardOpsError(
    'forbidden_role',
    `${what} needs the role ${needed}, and the key "${actor.name}" has the role ${actor.role}.`,
  )
}
