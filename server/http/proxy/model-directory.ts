import type { ProxiedPath } from '../../contract/proxied-paths.ts'
import { RewardOpsError } from '../../errors.ts'
import type { RouterServer } from '../../router/router-types.ts'
import { enginesWith, hasPath } from './routes.ts'

/** Shortest time between two wake requests for a model, in ms. */
const WAKE_EVERY_MS = 1_000
/** Retry-After for a sleeping model, in ms: about the duration of a wake. */
const ASLEEP_RETRY_MS = 10_000
/** Retry-After when a model's servers cannot be used, in ms. */
const RETRY_MS = 2_000
/** Maximum number of models that an error message names. */
const MAX_NAMED = 20

export type KnownServer = Pick<RouterServer, 'id' | 'model' | 'kind' | 'engine' | 'state'>

export interface KnownModel {
  model: string
  kind: 'discriminative' | 'generative'
  servers: KnownServer[]
}

export interface DirectorySources {
  /** The registered servers, in a new array whenever a server has changed. */
  servers(): readonly KnownServer[]
  /** Reads the registry again, for a model that was just registered. Throws if the read fails. */
  refresh(): Promise<void>
  /** Called to wake a server when a requested model's servers sleep. */
  onAsleep(model: string): void
}

export class ModelDirectory {
  readonly #sources: DirectorySources
  #seen: readonly KnownServer[] | null = null
  #models = new Map<string, KnownModel>()
  readonly #wokenAtMs = new Map<string, number>()
  #listing: Promise<void> | null = null

  constructor(sources: DirectorySources) {
    this.#sources = sources
  }

  /**
   * Reloads the registry and returns the models with servers in any state. If the reload fails, returns the last known
   * models.
   * @throws the error of the reload if none are known
   */
  async list(): Promise<KnownModel[]> {
    this.#listing ??= this.#sources
      .refresh()
      .catch((error) => {
        if (this.#sources.servers().length === 0) throw error
      })
      .finally(() => {
        this.#listing = null
      })
    await this.#listing
    return [...this.#known().values()]
  }

  /**
   * Returns the model of a request: the model that the request names, or the only registered model. If none is found,
   * reloads the registry, because a server may just have been registered.
   * @throws RewardOpsError `model_not_found`, `model_not_named`; the error of a failed reload
   */
  choose(named: string | null, path: ProxiedPath): string | Promise<string> {
    const model = this.#chosen(named)
    if (model?.servers.some(({ engine }) => hasPath(engine, path))) return model.model
    return this.#find(named)
  }

  #chosen(named: string | null): KnownModel | undefined {
    const known = this.#known()
    if (named !== null) return known.get(named)
    return known.size === 1 ? [...known.values()][0] : undefined
  }

  async #find(named: string | null): Promise<string> {
    await this.#sources.refresh()
    const model = this.#chosen(named)
    if (model !== undefined) return model.model
    const known = this.#known()
    const names = [...known.keys()].slice(0, MAX_NAMED)
    const there =
      names.length === 0
        ? 'No model is registered.'
        : `Registered: ${names.join(', ')}${known.size > MAX_NAMED ? ' and others' : ''}.`
    if (named === null) {
      throw new RewardOpsError(
        'model_not_named',
        `The request names no model. It can be left out only if exactly one is registered. ${there}`,
      )
    }
    throw new RewardOpsError(
      'model_not_found',
      `The model "${named.slice(0, 200)}" is not registered. ${there}`,
    )
  }

  /**
   * Returns the ids of the servers of a model whose engine lacks a path.
   * @throws RewardOpsError `path_not_served` if no server has the path; `model_asleep`, after a wake request, if no
   * server with the path is ready and one sleeps; `no_server` if no server with the path is ready and other servers
   * lack the path
   */
  lacking(model: string, path: ProxiedPath): number[] {
    const servers = this.#known().get(model)?.servers ?? []
    const lacking: number[] = []
    let ready = 0
    let asleep = 0
    for (const { id, engine, state } of servers) {
      if (!hasPath(engine, path)) lacking.push(id)
      else if (state === 'ready') ready++
      else if (state === 'sleeping' || state === 'waking') asleep++
    }
    if (servers.length > 0 && lacking.length === servers.length) {
      const engines = [...new Set(servers.map((s) => s.engine))].join(', ')
      throw new RewardOpsError(
        'path_not_served',
        `The engine of the servers of "${model}" is ${engines}, which has no ${path}. Engines with this path: ${enginesWith(path).join(', ')}.`,
      )
    }
    if (ready === 0 && asleep > 0) {
      this.#wakeSoon(model)
      throw new RewardOpsError(
        'model_asleep',
        `The servers of "${model}" sleep. They are being woken.`,
        { retryAfterMs: ASLEEP_RETRY_MS },
      )
    }
    if (ready === 0 && lacking.length > 0) {
      throw new RewardOpsError(
        'no_server',
        `No server of "${model}" with ${path} is available now.`,
        { retryAfterMs: RETRY_MS },
      )
    }
    return lacking
  }

  #wakeSoon(model: string): void {
    const nowMs = performance.now()
    if (nowMs - (this.#wokenAtMs.get(model) ?? Number.NEGATIVE_INFINITY) < WAKE_EVERY_MS) return
    this.#wokenAtMs.set(model, nowMs)
    this.#sources.onAsleep(model)
  }

  #known(): Map<string, KnownModel> {
    const servers = this.#sources.servers()
    if (servers === this.#seen) return this.#models
    this.#seen = servers
    this.#models = new Map()
    for (const server of servers) {
      const known = this.#models.get(server.model)
      if (known !== undefined) known.servers.push(server)
      else {
        const { model, kind = 'discriminative' } = server
        this.#models.set(model, { model, kind, servers: [server] })
      }
    }
    for (const model of this.#wokenAtMs.keys()) {
      if (!this.#models.has(model)) this.#wokenAtMs.delete(model)
    }
    return this.#models
  }
}
