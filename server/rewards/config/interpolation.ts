import type { ConfigLeaf } from './config-text.ts'

/** A leaf with its references resolved. `unresolved` is the first reference that could not be resolved, or null. */
export type ResolvedLeaf = ConfigLeaf & { unresolved: string | null }

/** Maximum depth of nested references, so that cycles end. */
const MAX_DEPTH = 16

/**
 * Resolves `${…}` references to keys of the same text (`${data.max_response_length}`, relative `${.len}` too) and
 * `${oc.select:key,default}`. `${oc.env:…}` and references to keys outside the text cannot be resolved here. If such a
 * reference has a default, the default is used, otherwise the reference is reported.
 */
export function resolveInterpolations(leaves: readonly ConfigLeaf[]): ResolvedLeaf[] {
  const byKey = new Map(leaves.map((leaf) => [leaf.key, leaf.value]))
  return leaves.map((leaf) => {
    const state = { unresolved: null as string | null }
    const value = resolveValue(leaf.value, leaf.key, byKey, state, 0)
    return { ...leaf, value: state.unresolved === null ? value : leaf.value, ...state }
  })
}

type Known = ReadonlyMap<string, unknown>
interface State {
  unresolved: string | null
}

function resolveValue(
  value: unknown,
  at: string,
  known: Known,
  state: State,
  depth: number,
): unknown {
  if (Array.isArray(value)) return value.map((v) => resolveValue(v, at, known, state, depth))
  if (typeof value !== 'string' || !value.includes('${')) return value
  const whole = /^\$\{([^${}]*)\}$/.exec(value)
  // A reference that is the whole value keeps its type; inside other text it becomes text.
  if (whole) return lookUp(whole[1] ?? '', at, known, state, depth)
  const text = value.replace(/\$\{([^${}]*)\}/g, (_, inner: string) =>
    String(lookUp(inner, at, known, state, depth)),
  )
  if (text.includes('${') && state.unresolved === null) state.unresolved = value
  return text
}

function lookUp(inner: string, at: string, known: Known, state: State, depth: number): unknown {
  const fail = () => {
    state.unresolved ??= `\${${inner}}`
    return null
  }
  if (depth >= MAX_DEPTH) return fail()
  const call = /^\s*([\w.]+)\s*:(.*)$/s.exec(inner)
  if (call === null) {
    const key = absolute(inner.trim(), at)
    if (!known.has(key)) return fail()
    return resolveValue(known.get(key), key, known, state, depth + 1)
  }
  const [, resolver, given = ''] = call
  const [key = '', ...rest] = given.split(',')
  const fallback = rest.length > 0 ? plain(rest.join(',').trim()) : undefined
  if (resolver === 'oc.select') {
    const selected = absolute(key.trim(), at)
    if (known.has(selected)) {
      return resolveValue(known.get(selected), selected, known, state, depth + 1)
    }
    return fallback === undefined ? fail() : fallback
  }
  if (resolver === 'oc.env' && fallback !== undefined) return fallback
  return fail()
}

/** Resolves a relative reference: `.x` is a sibling of the key that holds it, `..x` a sibling of that key's parent. */
function absolute(reference: string, at: string): string {
  const dots = /^\.+/.exec(reference)?.[0].length ?? 0
  if (dots === 0) return reference.replace(/\[(\w+)\]/g, '.$1')
  const parents = at.split('.').slice(0, -dots)
  return [...parents, reference.slice(dots)].join('.')
}

function plain(text: string): unknown {
  if (/^(null|~|)$/i.test(text)) return null
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  if (text !== '' && Number.isFinite(Number(text))) return Number(text)
  if (text === '{}') return {}
  return text.replace(/^(["'])(.*)\1$/, '$2')
}
