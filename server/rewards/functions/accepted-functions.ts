import type { Isolation } from '../../contract/isolation.ts'
import type { RewardSpec } from '../../contract/trainer.ts'
import { RewardOpsError } from '../../errors.ts'
import { suggest } from '../nearest-name.ts'
import type { FunctionSource } from './function-source.ts'
import { unpack, type VersionFolders, withRelativePaths } from './function-versions.ts'
import { inspectFunction } from './inspect-function.ts'
import type { FunctionForm, FunctionTarget } from './protocol.ts'
import { readSource } from './read-source.ts'
import type { HostSettings } from './start-host.ts'

const MAX_CACHED = 256

/** The current version of a function, which scores newly accepted batches. */
export interface FunctionVersion {
  hash: string
  /** Path relative to the functions folder, with `/`. */
  path: string
  form: FunctionForm
  isolation: Isolation
  /** Methods of a class or object, e.g. `post_process_scores`. */
  methods: string[]
}

/** The inspected functions of a reward, by `versionKey`. */
export interface ResolvedFunctions {
  versions: ReadonlyMap<string, FunctionVersion>
  sources: FunctionSource[]
}

export interface AcceptedFunctionsOptions
  extends Pick<VersionFolders, 'versionsDir' | 'functionsDir'> {
  settings: HostSettings
  loadMs?: number
}

export function versionKey(
  role: FunctionTarget['role'],
  path: string,
  name: string | undefined,
): string {
  return JSON.stringify([role, path, name ?? null])
}

/**
 * Inspects the functions that a reward names when its batch is accepted: each function is read, identified by its
 * content hash, and loaded once in a separate process to check that it can be called. An edited file is a new version,
 * used from the next batch on.
 */
export class AcceptedFunctions {
  readonly #options: AcceptedFunctionsOptions
  readonly #inspected = new Map<string, Promise<FunctionVersion>>()
  readonly #sources = new Map<string, FunctionSource>()

  constructor(options: AcceptedFunctionsOptions) {
    this.#options = options
  }

  /** @throws RewardOpsError `function_outside_folder`, `invalid_function`, `sandbox_unavailable` */
  async resolve(spec: RewardSpec): Promise<ResolvedFunctions> {
    const versions = new Map<string, FunctionVersion>()
    const sources = new Map<string, FunctionSource>()
    for (const { at, role, path, name } of functionsIn(spec)) {
      const key = versionKey(role, path, name)
      if (versions.has(key)) continue
      const source = await readSource(at, path, this.#options.functionsDir)
      sources.set(source.hash, source)
      versions.set(key, await this.#inspect(at, source, role, name))
    }
    return { versions, sources: [...sources.values()] }
  }

  /** Returns the source of a recently inspected version, even if it is not stored, or null if it is not cached. */
  source(hash: string): FunctionSource | null {
    return this.#sources.get(hash) ?? null
  }

  #inspect(
    at: string,
    source: FunctionSource,
    role: FunctionTarget['role'],
    name: string | undefined,
  ): Promise<FunctionVersion> {
    const key = JSON.stringify([source.hash, role, name ?? null])
    const known = this.#inspected.get(key)
    if (known) return known
    const inspecting = this.#load(at, source, role, name)
    if (this.#inspected.size >= MAX_CACHED) this.#inspected.clear()
    this.#inspected.set(key, inspecting)
    // Failures are not cached, because a file that is missing now may exist at the next attempt.
    inspecting.catch(() => this.#inspected.delete(key))
    return inspecting
  }

  async #load(
    at: string,
    source: FunctionSource,
    role: FunctionTarget['role'],
    name: string | undefined,
  ): Promise<FunctionVersion> {
    const { hash, path } = source
    const { sandbox } = this.#options.settings.plan
    if (sandbox?.ok === false) {
      throw new RewardOpsError('sandbox_unavailable', `${at}.path "${path}": ${sandbox.reason}`, {
        hint: sandbox.remedy,
      })
    }
    if (this.#sources.size >= MAX_CACHED) this.#sources.clear()
    this.#sources.set(hash, source)
    const dir = await unpack(source, this.#options)
    const { settings, loadMs } = this.#options
    const isolation = settings.plan.level
    const target = { key: '', dir, path, name: name ?? null, kwargs: {}, isolation, role }
    const found = await inspectFunction(settings, target, loadMs)
    if (found.ok) return { hash, path, isolation, form: found.form, methods: found.methods }
    const { exports } = found
    const message = withRelativePaths(found.message, this.#options)
    const near = name === undefined || exports.length === 0 ? '' : ` ${suggest(name, exports)}`
    throw new RewardOpsError('invalid_function', `${at}.path "${path}": ${message}.${near}`, {
      ...(exports.length > 0
        ? { hint: `It exports ${exports.join(', ')}: set ${at}.name to one of them.` }
        : {}),
    })
  }
}

function* functionsIn(
  spec: RewardSpec,
): Generator<{ at: string; role: FunctionTarget['role']; path: string; name: string | undefined }> {
  if (typeof spec.manager !== 'string') {
    const { path, name } = spec.manager
    yield { at: 'reward.manager', role: 'manager', path, name }
  }
  const components = (spec.combine ?? []).map((component, i) => ({
    at: `reward.combine[${i}].reward.function`,
    given: component.reward.function,
  }))
  for (const { at, given } of [{ at: 'reward.function', given: spec.function }, ...components]) {
    if (given?.path !== undefined)
      yield { at, role: 'function', path: given.path, name: given.name }
  }
}
