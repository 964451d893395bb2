import type { FunctionForm } from './protocol.ts'

export interface FoundTarget {
  form: FunctionForm
  value: unknown
}

/** Names of the method that scores one sample, in order of lookup. */
export const SCORE_METHODS = ['computeScore', 'compute_score', 'score', 'call'] as const
/** Names of a manager class's method that scores one sample, in order of lookup. */
export const MANAGER_METHODS = ['runSingle', 'run_single'] as const
const DEFAULT_NAMES = ['compute_score', 'computeScore'] as const

/**
 * Finds the named export of a module. If no name is given, finds its default export, `compute_score` or `computeScore`.
 * A CommonJS module's `module.exports` counts as its exports.
 */
export function findTarget(
  module: Record<string, unknown>,
  name: string | null,
  methods: readonly string[],
): FoundTarget | { message: string; exports: string[] } {
  const inner = module.default
  const among = (key: string): unknown => {
    if (Object.hasOwn(module, key)) return module[key]
    return typeof inner === 'object' && inner !== null
      ? (inner as Record<string, unknown>)[key]
      : undefined
  }
  const exports = callableExports(module, methods)
  if (name !== null) {
    const form = formOf(among(name), methods)
    if (form !== null) return { form, value: among(name) }
    return {
      message:
        among(name) === undefined
          ? `it has no export "${name}"`
          : `its export "${name}" is neither a function, a class nor an object with ${methods.join(', ')}`,
      exports,
    }
  }
  for (const value of [inner, ...DEFAULT_NAMES.map(among)]) {
    const form = formOf(value, methods)
    if (form !== null) return { form, value }
  }
  return {
    message: `it has no default export that can be called, and no ${DEFAULT_NAMES.join(' or ')}`,
    exports,
  }
}

function callableExports(module: Record<string, unknown>, methods: readonly string[]): string[] {
  const names = Object.keys(module).filter((key) => formOf(module[key], methods) !== null)
  const inner = module.default
  if (typeof inner !== 'object' || inner === null) return names
  const more = Object.entries(inner).filter(([, value]) => formOf(value, methods) !== null)
  return [...new Set([...names, ...more.map(([key]) => key)])]
}

function formOf(value: unknown, methods: readonly string[]): FunctionForm | null {
  if (typeof value === 'function') {
    return /^class\b/.test(Function.prototype.toString.call(value)) ? 'class' : 'function'
  }
  if (typeof value !== 'object' || value === null) return null
  return methodOf(value, methods) === null ? null : 'object'
}

export function methodOf(value: object, names: readonly string[]): string | null {
  const own = value as Record<string, unknown>
  return names.find((name) => typeof own[name] === 'function') ?? null
}

/** Includes inherited methods. */
export function methodsOf(value: object): string[] {
  const names = new Set<string>()
  for (
    let at: object | null = value;
    at !== null && at !== Object.prototype && at !== Function.prototype;
    at = Object.getPrototypeOf(at) as object | null
  ) {
    for (const [name, { value: member }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof member === 'function' && name !== 'constructor') names.add(name)
    }
  }
  return [...names]
}
