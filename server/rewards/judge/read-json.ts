import { parseDocument } from 'yaml'
import { z } from 'zod'
import { MAX_NESTING, tooNestedAt } from '../yaml-nesting.ts'
import type { JudgeParser } from './parser-spec.ts'
import { findingOf } from './read-text.ts'
import { type Finding, oneVerdict, type Verdict } from './verdict.ts'

type Spec = Extract<JudgeParser, { kind: 'json' }>

/** Maximum length of a JSON text, in characters, because the parser that finds duplicate keys is slow. */
const MAX_CHECKED_CHARS = 65_536

/**
 * Reads a score from JSON: the whole reply, else its fenced blocks, else the objects in its text. Each object that
 * contains the path gives a verdict. A duplicate key counts as two verdicts, although `JSON.parse` alone would see only
 * the last one.
 */
export function readJson(text: string, spec: Spec): Verdict {
  const findings: Finding[] = []
  const problems: string[] = []
  for (const source of sourcesIn(text)) {
    let value: unknown
    try {
      value = JSON.parse(source)
    } catch {
      continue
    }
    if (typeof value !== 'object' || value === null) continue
    const at = valueAt(value, spec.path)
    if (at === undefined) {
      problems.push(`the JSON has no "${spec.path}"`)
      continue
    }
    const twice = keyTwice(source)
    if (twice !== null) return { ok: false, problem: twice }
    const wrong = spec.schema === undefined ? null : schemaProblem(value, spec.schema)
    findings.push(wrong === null ? findingOf(at, spec) : { ok: false, problem: wrong })
  }
  if (findings.length > 0) return oneVerdict(findings)
  return { ok: false, problem: problems[0] ?? 'no JSON object in the reply' }
}

function sourcesIn(text: string): string[] {
  const whole = text.trim()
  if (isJson(whole)) return [whole]
  const fenced = [...text.matchAll(/```(?:json)?[^\S\n]*\n([\s\S]*?)```/gi)].map((match) =>
    (match[1] ?? '').trim(),
  )
  const blocks = fenced.filter(isJson)
  return blocks.length > 0 ? blocks : objectsIn(text)
}

function isJson(text: string): boolean {
  if (!text.startsWith('{') && !text.startsWith('[')) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Returns the text from each outermost `{` to its `}`, in one pass. Braces in strings are ignored. */
function objectsIn(text: string): string[] {
  const objects: string[] = []
  let start = -1
  let depth = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (inString) {
      if (char === '\\') at++
      else if (char === '"' || char === '\n') inString = false
    } else if (char === '{') {
      if (depth++ === 0) start = at
    } else if (depth > 0) {
      if (char === '"') inString = true
      else if (char === '}' && --depth === 0) objects.push(text.slice(start, at + 1))
    }
  }
  return objects
}

function valueAt(value: unknown, path: string): unknown {
  let at = value
  for (const key of path.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Record<string, unknown>)[key]
  }
  return at
}

/** Finds duplicate keys with the YAML parser, because JSON is YAML and `JSON.parse` ignores them. */
function keyTwice(source: string): string | null {
  if (source.length > MAX_CHECKED_CHARS)
    return `the JSON is longer than ${MAX_CHECKED_CHARS} characters`
  if (tooNestedAt(source) !== null) return `the JSON is nested more than ${MAX_NESTING} levels deep`
  const { errors } = parseDocument(source, { schema: 'json', uniqueKeys: true })
  const twice = errors.some((error) => error.code === 'DUPLICATE_KEY')
  return twice ? 'two verdicts: the JSON has a key twice' : null
}

const validators = new WeakMap<object, z.ZodType>()

function schemaProblem(value: unknown, schema: Record<string, unknown>): string | null {
  let validator = validators.get(schema)
  if (validator === undefined) {
    validator = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
    validators.set(schema, validator)
  }
  const checked = validator.safeParse(value)
  if (checked.success) return null
  const issue = checked.error.issues[0]!
  return `the JSON does not fit the schema: ${[...issue.path, issue.message].join(' ')}`
}

/** The problem of a schema that replies cannot be checked against; null if there is none. */
export function unusableSchemaProblem(schema: Record<string, unknown>): string | null {
  try {
    schemaProblem({}, schema)
    return null
  } catch (error) {
    const cause = (error as Error).message
      .replace(/ in Zod \(.*\)$/, '')
      .replace(/^not is/, '"not" is')
    return `replies cannot be checked against this schema: ${cause}`
  }
}
