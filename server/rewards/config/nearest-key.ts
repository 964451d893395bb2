import { nearestName } from '../nearest-name.ts'
import { writableKeys } from './upstream-keys.ts'

type Tree = Map<string, Tree>

let cached: Tree | null = null

function treeOfKeys(): Tree {
  if (cached) return cached
  const root: Tree = new Map()
  for (const key of writableKeys()) {
    let at = root
    for (const part of key.split('.').filter((name) => name !== '')) {
      let next = at.get(part)
      if (next === undefined) {
        next = new Map()
        at.set(part, next)
      }
      at = next
    }
  }
  cached = root
  return root
}

/**
 * Returns the known key that an unknown key was most likely meant to be. Each segment is compared with the known
 * segments at the same position. If a segment has no near match, the only key with the same last segment is returned
 * (`reward.reward_model.model_path` for `reward.model_path`). Undefined if no key is near.
 */
export function nearestKey(key: string): string | undefined {
  const parts = key.split('.')
  const path: string[] = []
  let at = treeOfKeys()
  for (const part of parts) {
    const name = at.has(part) ? part : (byWords(part, at.keys()) ?? nearestName(part, at.keys()))
    if (name === undefined) return elsewhere(key)
    path.push(name)
    at = at.get(name) as Tree
    // A function or an engine defines the keys below this key, so they are unknown here.
    if (at.size === 0) break
  }
  const found = [...path, ...parts.slice(path.length)].join('.')
  return found === key ? elsewhere(key) : found
}

/** The shortest name with all words of `part`: `tensor_model_parallel_size` for `tensor_parallel_size`. */
function byWords(part: string, names: Iterable<string>): string | undefined {
  const words = part.toLowerCase().split('_')
  // A single word occurs in too many names.
  if (words.length < 2) return undefined
  const having = [...names].filter((name) => {
    const own = name.split('_')
    return words.every((word) => own.includes(word))
  })
  return having.sort((a, b) => a.length - b.length)[0]
}

/**
 * Returns the other known key with the same last segment as `key`. If several keys match, those in the same section
 * take precedence. Returns undefined if no single key is left.
 */
function elsewhere(key: string): string | undefined {
  const last = key.slice(key.lastIndexOf('.') + 1)
  const same = writableKeys().filter(
    (known) => known !== key && (known === last || known.endsWith(`.${last}`)),
  )
  const [section = ''] = key.split('.')
  const near = same.filter((known) => known.startsWith(`${section}.`))
  if (near.length > 0) return near.length === 1 ? near[0] : undefined
  return same.length === 1 ? same[0] : undefined
}
