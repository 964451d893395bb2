import { isAlias, isMap, isScalar, LineCounter, type Node, parseAllDocuments } from 'yaml'
import { readCommandLine } from './command-line.ts'
import { YAML_OPTIONS } from './yaml-options.ts'

/** One setting of a text: a scalar, a list, or an empty map. */
export interface ConfigLeaf {
  /** Dotted, as written. */
  key: string
  value: unknown
  /** Of the text, from 1. */
  line: number
}

/** A text as settings, or why it is none. */
export type ConfigText =
  | { ok: true; leaves: ConfigLeaf[] }
  | { ok: false; line: number | null; message: string }

/** Longest text, in characters; upstream's composed configuration has about 40,000. */
const MAX_CHARS = 1_000_000
/** Most settings: one per line of such a text would be no configuration. */
const MAX_LEAVES = 20_000

/**
 * Reads YAML as Hydra does (`yes`, `on` and `True` are booleans), or the overrides of a command line
 * (`reward_model.enable=True +reward.max_rpm=60 \`). A key given twice is an error in YAML; on a command line the last
 * one counts, as there.
 */
export function readConfigText(text: string): ConfigText {
  if (text.length > MAX_CHARS) {
    return { ok: false, line: null, message: `longer than ${MAX_CHARS} characters` }
  }
  const overrides = readCommandLine(text)
  if (overrides !== null) return { ok: true, leaves: overrides }
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
    return { ok: false, line: null, message: 'several documents: give one of them' }
  }
  const { contents } = document!
  if (contents === null) return { ok: true, leaves: [] }
  if (!isMap(contents)) return { ok: false, line: 1, message: 'not a map of settings' }
  const leaves: ConfigLeaf[] = []
  const lineOf = (node: Node) => (node.range ? lines.linePos(node.range[0]).line : 1)
  const visit = (node: Node, path: string[], line: number, depth: number): void => {
    if (leaves.length >= MAX_LEAVES) return
    const target = isAlias(node) ? node.resolve(document!) : node
    if (target !== undefined && isMap(target) && target.items.length > 0 && depth < 32) {
      for (const { key, value } of target.items) {
        const name = isScalar(key) ? (key.source ?? String(key.value)) : String(key)
        const at = lineOf(key as Node)
        // What is merged in (`<<: *base`) stands among the keys beside it.
        if (name === '<<') visit(value as Node, path, at, depth + 1)
        else if (value === null)
          leaves.push({ key: [...path, name].join('.'), value: null, line: at })
        else visit(value as Node, [...path, name], at, depth + 1)
      }
      return
    }
    const value = target === undefined ? null : target.toJS(document!, { maxAliasCount: 100 })
    leaves.push({ key: path.join('.'), value, line })
  }
  try {
    visit(contents, [], lineOf(contents), 0)
  } catch (caught) {
    return { ok: false, line: null, message: (caught as Error).message }
  }
  if (leaves.length >= MAX_LEAVES) {
    return { ok: false, line: null, message: `more than ${MAX_LEAVES} settings` }
  }
  return { ok: true, leaves }
}
