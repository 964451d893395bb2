import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import {
  checkServerUrl,
  type ProbedServer,
  type ProbeFailure,
  probeServer,
} from '../router/server-admission.ts'
import { type Database, isConnectionLoss } from '../store/database.ts'
import { type JobQueue, poolOfModel } from '../store/job-queue.ts'
import { ServerRegistry } from '../store/server-registry.ts'
import type { ServerRow } from '../store/sql/servers.ts'
import type { ErrorReason } from '../wire/error-reasons.ts'
import type { RegisterServerInput } from '../wire/servers.ts'

/** Every server is asked this often whether it is there; spread by ±20 % so that they are not asked together. */
const PROBE_EVERY_MS = 5_000
/** SGLang's health check takes at least 1 s; 3 s tells a busy server from a dead one. */
const PROBE_TIMEOUT_MS = 3_000
/** At registration a person waits, and the server may be busy. */
const REGISTER_TIMEOUT_MS = 8_000
/** This many failed probes in a row make a server unreachable; one success makes it ready again. */
const FAILURES_TO_UNREACHABLE = 2

/** A server by id or name. */
export interface ServerRef {
  id?: string | undefined
  name?: string | undefined
}

/**
 * Registers reward-model servers and watches them.
 *
 *   register ─probe ok─▶ ready ──2 failed probes──▶ unreachable ──probe ok──▶ ready
 *   register(keep) ─────────────────────────────────▶ unreachable
 *   ready, unreachable ──drain──▶ draining ──resume──▶ ready | unreachable, by probe
 */
export class RewardModelManager {
  readonly #registry: ServerRegistry
  readonly #queue: JobQueue
  readonly #log: Logger
  readonly #failures = new Map<number, number>()
  readonly #nextProbe = new Map<number, number>()
  #timer: NodeJS.Timeout | undefined
  #busy = false

  constructor(db: Database, queue: JobQueue, log: Logger) {
    this.#registry = new ServerRegistry(db)
    this.#queue = queue
    this.#log = log
  }

  start(): void {
    this.#timer = setInterval(() => void this.#watch(), 500)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Registers a server after asking it what it is. Throws RewardOpsError when it is refused; then nothing changes. */
  async register(input: RegisterServerInput): Promise<ServerRow> {
    refuseUnsupported(input)
    const url = checkServerUrl(input.url)
    if (!url.ok) throw refusal(url)
    const probe = await probeServer({
      url: url.url,
      engine: input.engine,
      apiKey: input.apiKey ?? null,
      timeoutMs: REGISTER_TIMEOUT_MS,
      model: input.model ?? null,
    })
    const facts = probe.ok ? this.#factsOf(input, probe) : this.#keptFacts(input, url.url, probe)
    const pool = poolOfModel(facts.model)
    await this.#queue.ensure(pool)
    const id = await this.#registry.save(
      input.name,
      facts,
      probe.ok ? 'ready' : 'unreachable',
      probe.ok ? 'answered the probe at registration' : probe.message,
      pool,
    )
    this.#failures.delete(id)
    return this.#row({ id: `s${id}` })
  }

  #factsOf(input: RegisterServerInput, probe: ProbedServer) {
    const model = input.model ?? probe.model
    if (model === null) {
      throw new RewardOpsError(
        'invalid_input',
        `model: ${input.name} does not tell which model it serves.`,
        {
          hint: 'Give the model’s name.',
        },
      )
    }
    if (probe.kind === 'generative' && input.kind === 'discriminative') {
      this.#log.info(
        { server: input.name },
        'says that it is generative, registered as discriminative',
      )
    }
    return {
      url: probe.url,
      engine: probe.engine,
      kind: input.kind,
      model,
      weight: input.weight,
      maxInFlight: input.maxInFlight ?? null,
      apiKey: input.apiKey ?? null,
      tags: input.tags,
      version: probe.version,
      maxModelLen: probe.maxModelLen,
    }
  }

  /** A server that does not answer is kept only if that was asked for, and only if what it serves was named. */
  #keptFacts(input: RegisterServerInput, url: string, probe: ProbeFailure) {
    if (input.ifUnreachable !== 'keep' || probe.reason !== 'server_unreachable')
      throw refusal(probe)
    if (input.engine === 'auto' || input.model == null) {
      throw new RewardOpsError(
        'server_unreachable',
        `${probe.message}; to keep it until it answers, its engine and model must be given.`,
        { hint: 'Add "engine" (not "auto") and "model".' },
      )
    }
    return {
      url,
      engine: input.engine,
      kind: input.kind,
      model: input.model,
      weight: input.weight,
      maxInFlight: input.maxInFlight ?? null,
      apiKey: input.apiKey ?? null,
      tags: input.tags,
      version: null,
      maxModelLen: null,
    }
  }

  /** Changes a server; a new address or key is asked first. */
  async update(ref: ServerRef, changes: Record<string, unknown>): Promise<ServerRow> {
    const row = await this.#row(ref)
    if (changes.url !== undefined || changes.apiKey !== undefined) {
      return this.register({
        name: row.name,
        url: (changes.url as string | undefined) ?? row.url,
        engine: row.engine as RegisterServerInput['engine'],
        kind: row.kind,
        model: row.model,
        weight: (changes.weight as number | undefined) ?? row.weight,
        maxInFlight:
          changes.maxInFlight === undefined
            ? row.max_in_flight
            : (changes.maxInFlight as number | null),
        apiKey: changes.apiKey === undefined ? row.api_key : (changes.apiKey as string | null),
        tags: (changes.tags as string[] | undefined) ?? row.tags,
        ifUnreachable: 'refuse',
      })
    }
    await this.#registry.update(row.id, changes)
    return this.#row(ref)
  }

  /** Takes nothing new; what is in flight ends. */
  async drain(ref: ServerRef): Promise<ServerRow> {
    const row = await this.#row(ref)
    await this.#registry.setState(row.id, 'draining', 'asked to drain')
    return this.#row(ref)
  }

  async resume(ref: ServerRef): Promise<ServerRow> {
    const row = await this.#row(ref)
    if (row.state === 'draining') await this.#probeOne(row, 'resumed')
    return this.#row(ref)
  }

  async probe(ref: ServerRef): Promise<ServerRow> {
    await this.#probeOne(await this.#row(ref), 'asked to probe')
    return this.#row(ref)
  }

  async remove(ref: ServerRef): Promise<ServerRow> {
    const row = await this.#row(ref)
    await this.#registry.remove(row.id, 'removed')
    return row
  }

  async #row(ref: ServerRef): Promise<ServerRow> {
    const row = await this.#registry.find(ref)
    if (!row)
      throw new RewardOpsError(
        'server_not_found',
        `There is no server ${ref.id ?? `"${ref.name}"`}.`,
      )
    return row
  }

  async #watch(): Promise<void> {
    if (this.#busy) return
    this.#busy = true
    try {
      const now = performance.now()
      const servers = (await this.#registry.active()).filter((s) => s.state !== 'draining')
      const due = servers.filter((s) => (this.#nextProbe.get(s.id) ?? 0) <= now)
      for (const server of due) {
        // An unreachable one is asked every second: the step waits for it.
        const every = server.state === 'unreachable' ? 1_000 : PROBE_EVERY_MS
        this.#nextProbe.set(server.id, now + every * (0.8 + 0.4 * Math.random()))
      }
      await Promise.all(due.map((server) => this.#probeOne(server, null)))
    } catch (error) {
      if (!isConnectionLoss(error))
        this.#log.warn({ err: (error as Error).message }, 'probing failed')
    } finally {
      this.#busy = false
    }
  }

  async #probeOne(server: ServerRow, asked: string | null): Promise<void> {
    const result = await probeServer({
      url: server.url,
      engine: server.engine as RegisterServerInput['engine'],
      apiKey: server.api_key,
      timeoutMs: PROBE_TIMEOUT_MS,
      model: server.model,
    })
    if (result.ok) {
      this.#failures.delete(server.id)
      await this.#registry.probed(server.id, {
        version: result.version,
        maxModelLen: result.maxModelLen,
      })
      await this.#registry.setState(
        server.id,
        'ready',
        asked ? `${asked}, and it answered` : 'answers again',
      )
      return
    }
    const failures = (this.#failures.get(server.id) ?? 0) + 1
    this.#failures.set(server.id, failures)
    await this.#registry.probed(server.id, null)
    if (asked || failures >= FAILURES_TO_UNREACHABLE) {
      await this.#registry.setState(server.id, 'unreachable', result.message)
    }
  }
}

function refusal(failure: ProbeFailure): RewardOpsError {
  return new RewardOpsError(failure.reason as ErrorReason, failure.message, { hint: failure.hint })
}

function refuseUnsupported(input: RegisterServerInput): void {
  const refuse = (field: string, why: string): never => {
    throw new RewardOpsError('unsupported_setting', `${field}: ${why}`)
  }
  if (input.kind === 'generative')
    refuse('kind', '"generative" (judges) is not part of this version.')
  if (input.rpm != null) refuse('rpm', 'limits of requests a minute are not part of this version.')
  if (input.tpm != null) refuse('tpm', 'limits of tokens a minute are not part of this version.')
  if (input.chatTemplate != null)
    refuse('chatTemplate', 'chat templates are not part of this version.')
}
