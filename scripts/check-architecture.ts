import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { parseSync, Visitor } from 'rolldown/utils'
import { LAYERS, type Layer, READS_ENVIRONMENT } from './architecture-rules.ts'

interface Import {
  specifier: string
  line: number
  /** Whether the import is erased with the types. */
  typesOnly: boolean
}

interface Source {
  imports: Import[]
  environment: number[]
}

/**
 * Checks the sources under `root` against architecture-rules.ts: forbidden imports, cycles of value imports, and
 * reads of the environment outside the permitted files.
 * @returns a line for each violation, as `file:line: problem`, and the number of files read
 */
export function checkArchitecture(root: string): { breaches: string[]; files: number } {
  const breaches: string[] = []
  const graph = new Map<string, string[]>()
  for (const file of sourcesUnder(root)) {
    const source = readSource(file, readFileSync(join(root, file), 'utf8'))
    const layer = layerOf(file)
    const values: string[] = []
    for (const line of READS_ENVIRONMENT.test(file) ? [] : source.environment) {
      breaches.push(`${file}:${line}: process.env may be read only in config.ts`)
    }
    for (const { specifier, line, typesOnly } of source.imports) {
      if (!specifier.startsWith('.')) continue
      const target = relative(root, join(root, dirname(file), specifier))
        .split(sep)
        .join('/')
      if (!existsSync(join(root, target)) && !target.startsWith('server/store/generated/')) {
        breaches.push(`${file}:${line}: ${specifier} does not exist`)
        continue
      }
      const breach = breachOf(layer, layerOf(target), typesOnly)
      if (breach) breaches.push(`${file}:${line}: ${breach} (${target})`)
      if (!typesOnly) values.push(target)
    }
    graph.set(file, values)
  }
  for (const cycle of cyclesOf(graph)) breaches.push(`${cycle[0]}: a cycle: ${cycle.join(' → ')}`)
  return { breaches: breaches.sort(), files: graph.size }
}

const SKIPPED = new Set(['node_modules', 'generated', 'dist'])

function sourcesUnder(root: string, dir = ''): string[] {
  return readdirSync(join(root, dir), { withFileTypes: true }).flatMap((entry) => {
    const path = dir ? `${dir}/${entry.name}` : entry.name
    if (entry.isDirectory()) {
      return entry.name.startsWith('.') || SKIPPED.has(entry.name) ? [] : sourcesUnder(root, path)
    }
    return /(?<!\.d)\.tsx?$/.test(entry.name) ? [path] : []
  })
}

function readSource(file: string, text: string): Source {
  const { module, program, errors } = parseSync(file, text)
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`)
  const lineAt = (offset: number) => text.slice(0, offset).split('\n').length
  const imports: Import[] = []
  const environment: number[] = []
  for (const { moduleRequest, entries, start } of module.staticImports) {
    imports.push({
      specifier: moduleRequest.value,
      line: lineAt(start),
      typesOnly: entries.length > 0 && entries.every((entry) => entry.isType),
    })
  }
  for (const { entries, start } of module.staticExports) {
    const [first] = entries
    if (!first?.moduleRequest) continue
    imports.push({
      specifier: first.moduleRequest.value,
      line: lineAt(start),
      typesOnly: entries.every((entry) => entry.isType),
    })
  }
  // Finding `import()`, import types and `process.env` needs a walk over the syntax tree, which takes ten times as long
  // as the parse.
  if (/\bimport\(|\bprocess\b/.test(text)) {
    new Visitor({
      ImportExpression({ source, start }) {
        if (source.type !== 'Literal' || typeof source.value !== 'string') return
        imports.push({ specifier: source.value, line: lineAt(start), typesOnly: false })
      },
      TSImportType({ source, start }) {
        imports.push({ specifier: source.value, line: lineAt(start), typesOnly: true })
      },
      MemberExpression({ object, property, start }) {
        if (object.type !== 'Identifier' || object.name !== 'process') return
        const read =
          property.type === 'Identifier'
            ? property.name
            : text.slice(property.start + 1, property.end - 1)
        if (read === 'env') environment.push(lineAt(start))
      },
    }).visit(program)
  }
  return { imports, environment }
}

function layerOf(file: string): Layer | null {
  return LAYERS.find((layer) => layer.files.test(file)) ?? null
}

function breachOf(from: Layer | null, to: Layer | null, typesOnly: boolean): string | null {
  if (from === null) return 'this file is in no layer of scripts/architecture-rules.ts'
  if (to === null) return `${from.name} imports a file that is in no layer`
  if (from === to || from.imports.includes(to.name)) return null
  if (from.types?.includes(to.name)) {
    return typesOnly ? null : `${from.name} may import the types of ${to.name} only`
  }
  return `${from.name} must not import ${to.name}`
}

/** Cycles found in one walk over the files: not all, but at least one if there are any. */
function cyclesOf(graph: Map<string, string[]>): string[][] {
  const cycles: string[][] = []
  const done = new Set<string>()
  const path: string[] = []
  const walk = (file: string): void => {
    const seenAt = path.indexOf(file)
    if (seenAt >= 0) {
      cycles.push([...path.slice(seenAt), file])
      return
    }
    if (done.has(file)) return
    path.push(file)
    for (const next of graph.get(file) ?? []) walk(next)
    path.pop()
    done.add(file)
  }
  for (const file of graph.keys()) walk(file)
  return cycles
}

if (import.meta.main) {
  const { breaches, files } = checkArchitecture(join(import.meta.dirname, '..'))
  for (const breach of breaches) console.log(breach)
  if (files === 0) console.log('no source files found')
  if (breaches.length > 0 || files === 0) process.exitCode = 1
}
