import { z } from 'zod'
import { name as nameOf, RunName } from './fields.ts'
import { readableText } from './storable-text.ts'

/** Maximum size of a run's configuration as JSON. */
export const MAX_CONFIG_BYTES = 65_536
const MAX_CONFIG_DEPTH = 16
/** Maximum number of configuration values available to filters and columns. Further values are only displayed. */
const MAX_CONFIG_VALUES = 1_000
const MAX_VALUE_CHARS = 500
/** Maximum number of tags of a run. */
export const MAX_TAGS = 32
/** Maximum number of characters of a tag. */
export const MAX_TAG_CHARS = 64

export const Tag = nameOf(MAX_TAG_CHARS).refine((tag) => tag === tag.trim(), {
  message: 'must not begin or end with a space',
})
const Tags = z.array(Tag).max(MAX_TAGS, `must be at most ${MAX_TAGS} tags`)

const Config = z.record(z.string(), z.unknown()).superRefine((config, ctx) => {
  // The depth is checked first, because JSON.stringify is recursive.
  if (!isWithinDepth(config, MAX_CONFIG_DEPTH)) {
    ctx.addIssue({ code: 'custom', message: `must be nested at most ${MAX_CONFIG_DEPTH} deep` })
  } else if (new TextEncoder().encode(JSON.stringify(config)).length > MAX_CONFIG_BYTES) {
    ctx.addIssue({ code: 'custom', message: `must be at most ${MAX_CONFIG_BYTES} bytes of JSON` })
  }
})

/** The input of `runs.update`. Only the given fields change. */
export const UpdateRunInput = z
  .strictObject({
    /** The run is created if it does not exist. */
    run: nameOf(256),
    /** The hyperparameters or other settings, at most 64 kB; replaces the earlier ones. Null removes them. */
    config: Config.nullish(),
    /** Replaces all tags. */
    tags: Tags.optional(),
    /** Adds tags and keeps the others. */
    addTags: Tags.optional(),
    removeTags: Tags.optional(),
  })
  .refine(({ tags, addTags, removeTags }) => tags === undefined || !(addTags || removeTags), {
    path: ['tags'],
    message: 'replaces all tags, so addTags and removeTags must be absent',
  })
export type UpdateRunInput = z.infer<typeof UpdateRunInput>

/** The input of `runs.config`. */
export const RunConfigInput = z.strictObject({ run: RunName })

/** The configuration and tags of a run. */
export interface RunConfigDto {
  run: string
  /** The configuration as the trainer sent it, or null if there is none. */
  config: Record<string, unknown> | null
  tags: string[]
}

/** A value of a configuration; a list is one value, as JSON text. */
export type ConfigValue = string | number | boolean | null

/**
 * Returns the values of a configuration by dotted path, such as `optimizer.lr`. A list is one value, as JSON. Texts are
 * shortened to 500 characters, and NUL and lone surrogates become U+FFFD.
 */
export function configValues(config: Readonly<Record<string, unknown>>): Map<string, ConfigValue> {
  return new Map([...configEntries(config)].map(([path, value]) => [path, plainValue(value)]))
}

/** Returns up to 1,000 dotted paths of a configuration with their values as sent. A list is one value. */
function configEntries(config: Readonly<Record<string, unknown>>): Map<string, unknown> {
  const entries = new Map<string, unknown>()
  const add = (path: string, value: unknown) => {
    if (entries.size >= MAX_CONFIG_VALUES) return
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const prefix = path === '' ? '' : `${path}.`
      for (const [key, inner] of Object.entries(value)) add(`${prefix}${key}`, inner)
    } else entries.set(readableText(path).slice(0, 256), value)
  }
  add('', config)
  return entries
}

/** The values of several configurations at a path. */
export interface ComparedConfigValue {
  path: string
  /** The value in each configuration, shortened as in {@link configValues}; undefined where the path is absent. */
  values: (ConfigValue | undefined)[]
  isDifferent: boolean
}

/**
 * Compares configurations path by path, in the order in which the paths first occur. Values are compared before they
 * are shortened.
 */
export function compareConfigs(
  configs: readonly Readonly<Record<string, unknown>>[],
): ComparedConfigValue[] {
  const entries = configs.map(configEntries)
  const paths = new Set(entries.flatMap((one) => [...one.keys()]))
  return [...paths].map((path) => ({
    path,
    values: entries.map((one) => (one.has(path) ? plainValue(one.get(path)) : undefined)),
    isDifferent: new Set(entries.map((one) => JSON.stringify(one.get(path)))).size > 1,
  }))
}

function plainValue(value: unknown): ConfigValue {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return value
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return readableText(text).slice(0, MAX_VALUE_CHARS).toWellFormed()
}

function isWithinDepth(value: unknown, depth: number): boolean {
  let level: unknown[] = [value]
  for (let at = 0; level.length > 0; at++) {
    if (at > depth) return false
    level = level.flatMap((one) =>
      typeof one === 'object' && one !== null ? Object.values(one) : [],
    )
  }
  return true
}
