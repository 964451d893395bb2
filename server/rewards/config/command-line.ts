import { parseDocument } from 'yaml'
import type { ConfigLeaf } from './config-text.ts'
import { YAML_OPTIONS } from './yaml-options.ts'

/** `name=value` on a line of its own: a variable of the shell. */
const VARIABLE = /^\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)=(.*)$/
const OVERRIDE =
  /(?<![^\s'"])\+{0,2}([A-Za-z_][\w-]*(?:[./@][\w-]+)*)=((?:"(?:[^"\\]|\\.)*"|'[^']*'|\[[^\]\n]*\]|\$\{[^}\n]*\}|[^\s'"\\])*)/g

/**
 * The overrides of a command line, or of the script around one (`reward_model.enable=True \`); null when the text is not
 * one. Variables that the script sets to plain values, sums and products are put in; of the last of several settings of
 * a key, as Hydra takes it. Nothing is run.
 */
export function readCommandLine(text: string): ConfigLeaf[] | null {
  const lines = text.split('\n')
  // In YAML a name is followed by a colon; an override has a dotted name and `=`.
  if (lines.some((line) => /^\s*(?!\+)[\w-]+\s*:(\s|$)/.test(line))) return null
  const found = new Map<string, ConfigLeaf>()
  const variables = new Map<string, string>()
  let continues = false
  for (const [at, line] of lines.entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    const variable = continues ? null : VARIABLE.exec(line)
    continues = line.trimEnd().endsWith('\\')
    if (variable && !/^\S+\s+\S*[./]\S*=/.test(line)) {
      const [, name = '', raw = ''] = variable
      // A lone line such as `max_concurrency=8` may be either; a trainer's command goes on.
      if (!continues && lines.length > 1) {
        variables.set(name, putIn(withoutComment(raw), variables))
        continue
      }
    }
    for (const [, key = '', raw = ''] of line.matchAll(OVERRIDE)) {
      // Set for the command alone, as in `NCCL_DEBUG=WARN python3 -m …`.
      if (/^[A-Z_][A-Z0-9_]*$/.test(key)) continue
      found.delete(key)
      found.set(key, { key, value: overrideValue(putIn(raw, variables)), line: at + 1 })
    }
  }
  return found.size === 0 ? null : [...found.values()]
}

function withoutComment(raw: string): string {
  return /^(?:"[^"]*"|'[^']*'|[^\s"'#]|\s(?!#))*/.exec(raw)?.[0].trim() ?? ''
}

/** With the variables that are known; the others stay as `${name}`. */
function putIn(raw: string, variables: ReadonlyMap<string, string>): string {
  if (/^'[^']*'$/.test(raw)) return raw
  const named = (name: string, fallback?: string) =>
    variables.get(name) ?? fallback ?? `\${${name}}`
  return raw
    .replace(/\$HOME\b|\$\{HOME\}/g, '~')
    .replace(/\$\(\(([^$]*?)\)\)(?!\))/g, (whole, expression: string) => {
      const value = arithmetic(expression, variables)
      return value === null ? whole.replace('$', '$_') : String(value)
    })
    .replace(/\$\{(\w+)(?::?-([^}]*))?\}/g, (_, name: string, fallback) => named(name, fallback))
    .replace(/\$([A-Za-z]\w*)/g, (_, name: string) => named(name))
    .replaceAll('$_((', '${((')
}

/** As Hydra takes it; the quotes around it are the shell's. */
function overrideValue(raw: string): unknown {
  const text = /^(["'])(.*)\1$/s.exec(raw)?.[2] ?? raw
  if (text === '' || text.includes('${')) return text
  const document = parseDocument(text, YAML_OPTIONS)
  if (document.errors.length > 0) return text
  const value: unknown = document.toJS({ maxAliasCount: 100 })
  return typeof value === 'object' && value !== null && !/^[[{]/.test(text) ? text : value
}

/** Sums and products of whole numbers and variables; null for anything else. */
function arithmetic(expression: string, variables: ReadonlyMap<string, string>): number | null {
  const tokens = expression.match(/\d+|[A-Za-z_]\w*|[-+*/()]|\S/g) ?? []
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
