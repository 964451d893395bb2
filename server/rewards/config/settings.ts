import type { ImportedConfigDto, ImportedKeyDto } from '../../contract/rewards.ts'
import type { ResolvedLeaf } from './interpolation.ts'
import { nearestKey } from './nearest-key.ts'
import { currentKey, isRead, isSection, whyElsewhere } from './upstream-keys.ts'

interface Entry {
  leaf: ResolvedLeaf
  report: ImportedKeyDto | null
}

/** The settings of a configuration text, by their keys in verl's new shape. Each setting is reported once. */
export class Settings {
  readonly problems: ImportedConfigDto['problems'] = []
  readonly #entries: Entry[] = []
  readonly #byKey = new Map<string, Entry>()

  constructor(leaves: readonly ResolvedLeaf[]) {
    for (const leaf of leaves) {
      const entry: Entry = { leaf, report: null }
      this.#entries.push(entry)
      const key = currentKey(leaf.key)
      const other = this.#byKey.get(key)
      const wins = other === undefined || rank(leaf) >= rank(other.leaf) ? entry : other
      this.#byKey.set(key, wins)
      const loses = wins === entry ? other : entry
      if (loses) this.#note(loses, 'not_applicable', `overridden by ${wins.leaf.key}`)
    }
  }

  /** A key's value; undefined if it is missing, null, or unresolved. */
  value(key: string): unknown {
    const leaf = this.#byKey.get(key)?.leaf
    return leaf === undefined || leaf.unresolved !== null ? undefined : (leaf.value ?? undefined)
  }

  /** A text or number as a string. Another value is reported as a problem and counts as missing. */
  text(key: string): string | undefined {
    const value = this.value(key)
    if (value === undefined || typeof value === 'string') return value
    if (typeof value === 'number') return String(value)
    return this.#wrong(key, 'text')
  }

  flag(key: string): boolean | undefined {
    const value = this.value(key)
    if (value === undefined || typeof value === 'boolean') return value
    return this.#wrong(key, 'True or False')
  }

  number(key: string, least = 0): number | undefined {
    const value = this.value(key)
    if (value === undefined) return undefined
    const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
    if (typeof number === 'number' && Number.isFinite(number) && number >= least) return number
    return this.#wrong(key, `a number of at least ${least}`)
  }

  /**
   * Returns the settings under the prefix as nested objects, or null if there are none. With a `note`, each of them is
   * recorded as `supported`.
   */
  under(prefix: string, note: string | null): Record<string, unknown> | null {
    let any = false
    const root: Record<string, unknown> = {}
    for (const [key, entry] of this.#byKey) {
      if (!key.startsWith(prefix)) continue
      const { leaf } = entry
      if (leaf.unresolved !== null) continue
      any = true
      let at = root
      const parts = key.slice(prefix.length).split('.')
      for (const part of parts.slice(0, -1)) {
        const inner = Object.hasOwn(at, part) ? at[part] : undefined
        const next = typeof inner === 'object' && inner !== null ? inner : {}
        define(at, part, next)
        at = next as Record<string, unknown>
      }
      define(at, parts.at(-1) as string, leaf.value)
      if (note !== null) this.#note(entry, 'supported', note)
    }
    return any ? root : null
  }

  written(key: string): string {
    return this.#byKey.get(key)?.leaf.key ?? key
  }

  /** Whether the key has an unresolved reference, which is reported separately. */
  isUnresolved(key: string): boolean {
    return (this.#byKey.get(key)?.leaf.unresolved ?? null) !== null
  }

  honour(key: string, note: string): void {
    const entry = this.#byKey.get(key)
    if (entry) this.#note(entry, 'supported', note)
  }

  leave(key: string, why: string): void {
    const entry = this.#byKey.get(key)
    if (entry) this.#note(entry, 'not_applicable', why)
  }

  leaveUnder(prefix: string, why: string): void {
    for (const [key, entry] of this.#byKey) {
      if (key.startsWith(prefix) && isRead(key)) this.#note(entry, 'not_applicable', why)
    }
  }

  unknown(key: string, nearest: string | undefined): void {
    const entry = this.#byKey.get(key)
    if (!entry || entry.report) return
    this.#note(entry, 'unknown', 'no such key')
    if (nearest !== undefined && entry.report) (entry.report as ImportedKeyDto).nearest = nearest
  }

  problem(key: string | null, message: string): void {
    const leaf = key === null ? undefined : this.#byKey.get(key)?.leaf
    this.problems.push({ key: leaf?.key ?? key, line: leaf?.line ?? null, message })
  }

  account(): ImportedKeyDto[] {
    for (const entry of this.#entries) {
      if (entry.report) continue
      const { leaf } = entry
      const key = currentKey(leaf.key)
      const why = whyElsewhere(leaf.key)
      if (isRead(key)) {
        this.#note(entry, 'supported', leaf.value === null ? 'null: same as not set' : 'read')
      } else if (why !== null) this.#note(entry, 'not_applicable', why)
      else if (isSection(leaf.key) && isEmpty(leaf.value)) {
        this.#note(entry, 'supported', 'empty: same as not set')
      } else {
        this.#note(entry, 'unknown', 'no such key')
        const nearest = nearestKey(leaf.key)
        if (nearest !== undefined && entry.report)
          (entry.report as ImportedKeyDto).nearest = nearest
      }
    }
    const reports = this.#entries.map(({ report }) => report as ImportedKeyDto)
    for (const { key, line, status, nearest } of reports) {
      if (status !== 'unknown') continue
      const message = nearest ? `no such key, did you mean ${nearest}?` : 'no such key'
      this.problems.push({ key, line, message })
    }
    return reports
  }

  #note(entry: Entry, status: ImportedKeyDto['status'], note: string): void {
    if (entry.report) return
    const { key, line, value, unresolved } = entry.leaf
    if (status === 'supported' && unresolved !== null) {
      const missing = `${unresolved} is not in this text`
      entry.report = { key, line, value, status: 'unresolved', note: missing }
      const message = `${missing}: give the composed configuration`
      this.problems.push({ key, line, message })
      return
    }
    entry.report = { key, line, value, status, note }
  }

  #wrong(key: string, wanted: string): undefined {
    const { leaf } = this.#byKey.get(key) as Entry
    const got = leaf.value === '???' ? '??? (it must be set)' : JSON.stringify(leaf.value)
    this.problem(key, `must be ${wanted}, not ${got}`)
    this.leave(key, `not ${wanted}`)
    return undefined
  }
}

/**
 * Rank of a key. If several keys give the same setting, the one with the highest rank counts. As in verl, a key of the
 * old shape wins unless it is null.
 */
function rank({ key, value }: ResolvedLeaf): number {
  if (currentKey(key) === key) return 1
  return value === null ? 0 : 2
}

function isEmpty(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.keys(value).length === 0)
}

/** Sets a property of an object. A plain assignment to the key `__proto__` would change the object's prototype. */
function define(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  })
}
