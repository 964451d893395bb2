import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  LineCounter,
  type Node,
  parseAllDocuments,
  parseDocument,
  type ScalarTag,
} from 'yaml'
import { MAX_NESTING, tooNestedAt } from '../yaml-nesting.ts'
import { shellWords } from './shell-words.ts'

export interface ConfigLeaf {
  /** Dotted key, as written. */
  key: string
  value: unknown
  /** Line of the text, from 1. */
  line: number
}

export type ConfigText =
  | { ok: true; leaves: ConfigLeaf[] }
  | { ok: false; line: number | null; message: string }

/** Maximum number of characters of a text; verl's composed configuration has about 40,000. */
const MAX_CHARS = 1_000_000
const MAX_LEAVES = 20_000
const TOO_NESTED = `nested more than ${MAX_NESTING} levels deep`

/** Hydra reads `yes`, `no`, `on` and `off` as booleans, but not `y` and `n`. */
const words: ScalarTag = {
  identify: (value) => typeof value === 'boolean',
  default: true,
  tag: 'tag:yaml.org,2002:bool',
  test: /^(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$/,
  resolve: (text) => /^(?:yes|on)$/i.test(text),
}

/** YAML as Hydra reads it. YAML 1.1 would read the key `n` as false. */
const YAML_OPTIONS = {
  version: '1.2' as const,
  uniqueKeys: true,
  customTags: (tags: unknown[]) => [words, ...(tags as ScalarTag[])],
}

/** An assignment to a shell variable. It takes effect only if every word of its line is an assignment. */
const VARIABLE = /^([A-Za-z_]\w*)=(.*)$/s
const OVERRIDE = /^\+{0,2}([A-Za-z_][\w-]*(?:[./@][\w-]+)*)=(.*)$/s

/**
 * Reads YAML as Hydra does (`yes`, `on` and `True` are booleans), or the overrides of a command line
 * (`reward_model.enable=True +reward.max_rpm=60 \`). A duplicate key is an error in YAML; on a command line the last
 * one counts, as in Hydra.
 */
export function readConfigText(text: string): ConfigText {
  if (text.length > MAX_CHARS) {
    return { ok: false, line: null, message: `longer than ${MAX_CHARS} characters` }
  }
  try {
    const overrides = readCommandLine(text)
    return overrides === null ? readYaml(text) : { ok: true, leaves: overrides }
  } catch (caught) {
    return { ok: false, line: null, message: (caught as Error).message }
  }
}

/** @throws Error for a value that cannot be read */
function readYaml(text: string): ConfigText {
  const line = tooNestedAt(text)
  if (line !== null) return { ok: false, line, message: TOO_NESTED }
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { ...YAML_OPTIONS, lineCounter: lines })
  if (!Array.isArray(documents) || documents.length === 0) return { ok: true, leaves: [] }
  const [document, second] = documents
  const error = documents.flatMap(({ errors }) => errors)[0]
  if (error) {
    const [message = ''] = error.message.split('\n')
    return { ok: false, line: lines.linePos(error.pos[0]).line, message }
  }
  if (second !== undefined) {
    return { ok: false, line: null, message: 'several documents: keep only one of them' }
  }
  const { contents } = document!
  if (contents === null) return { ok: true, leaves: [] }
  if (!isMap(contents)) return { ok: false, line: 1, message: 'not a map of settings' }
  const leaves = leavesOf(contents, document!, (node) =>
    node.range ? lines.linePos(node.range[0]).line : 1,
  )
  if (leaves.length >= MAX_LEAVES) {
    return { ok: false, line: null, message: `more than ${MAX_LEAVES} settings` }
  }
  return { ok: true, leaves }
}

/** The settings of a map and of its nested maps, at most {@link MAX_LEAVES}. */
function leavesOf(
  contents: Node,
  document: Document,
  lineOf: (node: Node) => number,
  path: string[] = [],
): ConfigLeaf[] {
  const leaves: ConfigLeaf[] = []
  const visit = (node: Node, path: string[], line: number, depth: number): void => {
    if (leaves.length >= MAX_LEAVES) return
    const target = isAlias(node) ? node.resolve(document) : node
    if (target !== undefined && isMap(target) && target.items.length > 0 && depth < 32) {
      for (const { key, value } of target.items) {
        const name = isScalar(key) ? (key.source ?? String(key.value)) : String(key)
        const at = lineOf(key as Node)
        // Keys merged by `<<: *base` count as keys of this map.
        if (name === '<<') visit(value as Node, path, at, depth + 1)
        else if (value === null)
          leaves.push({ key: [...path, name].join('.'), value: null, line: at })
        else visit(value as Node, [...path, name], at, depth + 1)
      }
      return
    }
    leaves.push({ key: path.join('.'), value: plainValue(target, document), line })
  }
  visit(contents, path, lineOf(contents), 0)
  return leaves
}

/**
 * Reads the overrides of a command line or script; null if there are none. Variables that the script sets are replaced
 * by their values, and integer arithmetic is evaluated. As in Hydra, the last setting of a key counts. Nothing is
 * executed.
 */
function readCommandLine(text: string): ConfigLeaf[] | null {
  const lines = text.split('\n')
  // In YAML a name is followed by a colon, in an override by `=`.
  if (lines.some((line) => /^\s*(?!\+)[\w-]+\s*:(\s|$)/.test(line))) return null
  const found = new Map<string, ConfigLeaf>()
  const variables = new Map<string, string>()
  const expand = (part: string) => putIn(part, variables)
  let continues = false
  for (const [at, line] of lines.entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    const isFirst = !continues
    continues = line.trimEnd().endsWith('\\')
    // Only a text of several lines sets variables. A single line such as `max_concurrency=8` is an override.
    if (isFirst && !continues && lines.length > 1) {
      const words = shellWords(line.replace(/^\s*(?:export|local)\s/, ''), expand)
      const assigned = words.map((word) => VARIABLE.exec(word) ?? [])
      if (assigned.every(({ length }) => length > 0)) {
        for (const [, name = '', value = ''] of assigned) variables.set(name, value)
        continue
      }
    }
    for (const [key, value] of overridesOf(line, expand)) {
      for (const leaf of overrideLeaves(key, value, at + 1)) {
        found.delete(leaf.key)
        found.set(leaf.key, leaf)
      }
    }
  }
  return found.size === 0 ? null : [...found.values()]
}

/**
 * The overrides in a line of a script. A word with spaces, such as a quoted command or the value of a variable, is
 * searched too (`bash -c "python3 -m … a.b=1"`, `$OVERRIDES`).
 */
function overridesOf(
  line: string,
  expand: (text: string) => string,
  depth = 0,
): [key: string, value: string][] {
  return shellWords(line, expand).flatMap((word): [string, string][] => {
    const [, key, value = ''] = OVERRIDE.exec(word) ?? []
    // Names in capitals are environment variables of the command, as in `NCCL_DEBUG=WARN python3 -m …`.
    if (key !== undefined && !/^[A-Z_][A-Z0-9_]*$/.test(key)) return [[key, value]]
    const inner = key === undefined ? word : value
    return depth < 3 && /\s/.test(inner) ? overridesOf(inner, (part) => part, depth + 1) : []
  })
}

function putIn(raw: string, variables: ReadonlyMap<string, string>): string {
  const named = (name: string, fallback?: string) =>
    variables.get(name) ?? fallback ?? `\${${name}}`
  return raw
    .replace(/\$HOME\b|\$\{HOME\}/g, '~')
    .replace(/\$\(\(((?:[^$]|\$(?=\w|\{\w+\}))*?)\)\)(?!\))/g, (whole, expression: string) => {
      const value = arithmetic(expression, variables)
      return value === null ? whole.replace('$((', '$_((') : String(value)
    })
    .replace(/\$\{(\w+)(?::?-([^}]*))?\}/g, (_, name: string, fallback) => named(name, fallback))
    .replace(/\$([A-Za-z]\w*)/g, (_, name: string) => named(name))
    .replaceAll('$_((', '${((')
}

/**
 * The settings of an override as Hydra reads them. A map such as `{a:1,b:{c:2}}` gives a setting for each key in it.
 * @throws Error for a value that cannot be read
 */
function overrideLeaves(key: string, text: string, line: number): ConfigLeaf[] {
  const leaf = (value: unknown) => [{ key, value, line }]
  // In YAML, ` #` would begin a comment.
  if (text === '' || text.includes('${') || /^[^"'[{].*\s#/.test(text)) return leaf(text)
  // YAML needs a space after the colon.
  const spaced = text.startsWith('{') ? text.replace(/([{,]\s*[\w./@-]+):(?=\S)/g, '$1: ') : text
  if (tooNestedAt(spaced) !== null) throw new Error(`${key}: ${TOO_NESTED}`)
  const document = parseDocument(spaced, YAML_OPTIONS)
  if (document.errors.length > 0) return leaf(text)
  const { contents } = document
  if (isMap(contents) && contents.flow) return leavesOf(contents, document, () => line, [key])
  const value = plainValue(contents, document)
  return leaf(typeof value === 'object' && value !== null && !text.startsWith('[') ? text : value)
}

/** @throws Error for a node that contains itself or has more than 100 aliases */
function plainValue(node: Node | null | undefined, document: Document): unknown {
  const value: unknown = node?.toJS(document, { maxAliasCount: 100 }) ?? null
  try {
    JSON.stringify(value)
  } catch {
    throw new Error('an alias refers to a node that contains it')
  }
  return value
}

/** Evaluates `+ - * / ( )` on whole numbers and variables; null for anything else. */
function arithmetic(expression: string, variables: ReadonlyMap<string, string>): number | null {
  const tokens =
    expression.replace(/\$\{?(\w+)\}?/g, '$1').match(/\d+|[A-Za-z_]\w*|[-+*/()]|\S/g) ?? []
  let at = 0
  const atom = (): number => {
    const token = tokens[at++]
    if (token === '(') {
      const inside = sum()
      return tokens[at++] === ')' ? inside : Number.NaN
    }
    return Number(token === undefined ? Number.NaN : (variables.get(token) ?? token))
  }
  const product = (): number => {
    let value = atom()
    while (tokens[at] === '*' || tokens[at] === '/') {
      value = tokens[at++] === '*' ? value * atom() : Math.trunc(value / atom())
    }
    return value
  }
  const sum = (): number => {
    let value = product()
    while (tokens[at] === '+' || tokens[at] === '-') {
      value = tokens[at++] === '+' ? value + product() : value - product()
    }
    return value
  }
  const value = sum()
  return at === tokens.length && Number.isSafeInteger(value) ? value : null
}
