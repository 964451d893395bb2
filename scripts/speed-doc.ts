import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

// node scripts/speed-doc.ts RESULTS.jsonl …: writes the output of `npm run bench -- pages watch first-load` between the
// markers in docs/maintainers/speed.md. Parts without results stay unchanged.

const DOC = join(import.meta.dirname, '../docs/maintainers/speed.md')

type Line = { name: string } & Record<string, unknown>

/** Returns the document with its parts rewritten from lines of benchmark results. @throws Error for a missing marker */
export function filled(doc: string, lines: readonly Line[]): string {
  let text = doc
  for (const [part, write] of Object.entries(PARTS)) {
    const content = write(lines)
    if (content === null) continue
    const [from, to] = [`<!-- ${part} -->\n`, `<!-- /${part} -->`]
    const start = text.indexOf(from)
    const end = text.indexOf(to)
    if (start === -1 || end < start) throw new Error(`there is no part ${part} in the page`)
    text = `${text.slice(0, start + from.length)}${content}\n${text.slice(end)}`
  }
  return text
}

const PARTS: Record<string, (lines: readonly Line[]) => string | null> = {
  pages(lines) {
    const all = last(lines, 'pages.all')
    const seeded = last(lines, 'pages.seeded')
    if (all === undefined || seeded === undefined) return null
    // Only the newest run is used; the results may contain several.
    const from = lines.lastIndexOf(seeded)
    const queries = lines.slice(from).filter(({ name }) => name === 'pages.query')
    const slowest = queries.toSorted((a, b) => Number(b.p95Ms) - Number(a.p95Ms)).slice(0, 20)
    const made =
      seeded.isUnchanged === true ? '' : `, seeded and rolled up in ${count(seeded.seconds)} s`
    return [
      `${count(seeded.samples)} samples in ${count(seeded.batches)} batches${made}. ${machine(lines)}`,
      `Highest values of one query: p50 ${count(all.slowestP50Ms)} ms, p95 ${count(all.slowestP95Ms)} ms. All ${count(all.queries)} requests together: p50 ${count(all.p50Ms)} ms, p95 ${count(all.p95Ms)} ms, maximum ${count(all.maxMs)} ms.`,
      '',
      '| page | first, ms | p50, ms | p95, ms | KiB |',
      '|---|---:|---:|---:|---:|',
      ...slowest.map(
        (row) =>
          `| ${row.page} | ${count(row.firstMs)} | ${count(row.p50Ms)} | ${count(row.p95Ms)} | ${count(row.kib)} |`,
      ),
    ].join('\n')
  },
  watch(lines) {
    const watch = last(lines, 'watch')
    if (watch === undefined) return null
    const blocked =
      watch.longestTaskMs === null
        ? 'no task of 50 ms'
        : `${count(watch.longTasks)} tasks of 50 ms or more, the longest ${count(watch.longestTaskMs)} ms`
    return [
      `Batches of ${count(watch.samples)} samples in ${count(watch.groups)} groups, ${watch.batchSeconds} s each. ${machine(lines)}`,
      '',
      '| | |',
      '|---|---|',
      `| page updates per second | ${watch.updatesPerSecond} |`,
      `| main-thread tasks, wall time | ${blocked} |`,
      `| main-thread tasks, CPU time | ${count(watch.longTasksByCpu)} tasks of 50 ms or more, the longest ${count(watch.longestTaskCpuMs)} ms |`,
      `| samples scored per second, page open | ${count(watch.watchedPerSecond)} |`,
      `| samples scored per second, blank page | ${count(watch.blankPerSecond)} |`,
      `| slowdown | ${watch.fallPercent} % |`,
    ].join('\n')
  },
  'first-load'(lines) {
    const load = last(lines, 'first_load')
    if (load === undefined) return null
    return [
      machine(lines),
      '',
      '| | |',
      '|---|---|',
      `| JavaScript, transferred | ${load.scriptKib} KiB in ${count(load.scripts)} files |`,
      `| all resources, transferred | ${load.allKib} KiB |`,
      `| largest contentful paint, ${load.cpuSlowdown} × CPU slowdown | ${count(load.lcpMs)} ms at the median, ${count(load.lcpWorstMs)} ms at most |`,
    ].join('\n')
  },
}

function last(lines: readonly Line[], name: string): Line | undefined {
  return lines.findLast((line) => line.name === name)
}

function machine(lines: readonly Line[]): string {
  const on = last(lines, 'machine')
  return on === undefined ? '' : `On ${count(on.cores)} cores (${on.cpu}).`
}

function count(value: unknown): string {
  return typeof value === 'number' ? value.toLocaleString('en-US') : '–'
}

if (import.meta.main) {
  const lines = process.argv
    .slice(2)
    .flatMap((path) => readFileSync(path, 'utf8').split('\n'))
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
  if (lines.length === 0) {
    console.error('usage: node scripts/speed-doc.ts RESULTS.jsonl …, the output of npm run bench')
    process.exit(2)
  }
  writeFileSync(DOC, filled(readFileSync(DOC, 'utf8'), lines))
}
