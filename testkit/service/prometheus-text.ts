export interface ScrapedSeries {
  name: string
  labels: Record<string, string>
  value: number
}

export interface ScrapedFamily {
  name: string
  help: string
  type: string
  series: ScrapedSeries[]
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/
const UNITS = /(_(milliseconds|ms|minutes|kb|mb|megabytes|percent))(_|$)/

/**
 * Parses Prometheus's text format more strictly than Prometheus: every family has one HELP and one TYPE before its series
 * and is contiguous, no series is repeated, counters and only counters end in `_total`, units are base units, and
 * histograms are cumulative and end in +Inf.
 * @throws Error with the invalid line
 */
export function parsePrometheusText(text: string): Map<string, ScrapedFamily> {
  const families = new Map<string, ScrapedFamily>()
  const seen = new Set<string>()
  let now: ScrapedFamily | null = null
  let helped: { name: string; help: string } | null = null
  if (!text.endsWith('\n')) throw new Error('the last line has no line end')
  for (const line of text.split('\n')) {
    if (line === '') continue
    if (line.startsWith('# HELP ')) {
      const [, name, help] = /^# HELP (\S+) (.+)$/.exec(line) ?? wrong(line)
      if (families.has(name as string)) wrong(line)
      helped = { name: name as string, help: help as string }
    } else if (line.startsWith('# TYPE ')) {
      const [, name, type] =
        /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? wrong(line)
      if (helped?.name !== name || !NAME.test(name as string)) wrong(line)
      now = { name: name as string, type: type as string, help: helped!.help, series: [] }
      if ((type === 'counter') !== now.name.endsWith('_total') || UNITS.test(now.name)) wrong(line)
      families.set(now.name, now)
      helped = null
    } else {
      if (line.startsWith('#') || now === null || helped !== null) wrong(line)
      const series = sampleOf(line)
      const own =
        now!.type === 'histogram'
          ? [`_bucket`, `_sum`, `_count`].map((end) => now!.name + end)
          : [now!.name]
      if (now!.type === 'summary') own.push(`${now!.name}_sum`, `${now!.name}_count`)
      if (!own.includes(series.name)) wrong(line)
      const key = `${series.name} ${JSON.stringify(Object.entries(series.labels).sort())}`
      if (seen.has(key)) throw new Error(`repeated series: ${line}`)
      seen.add(key)
      if (now!.type !== 'gauge' && !(series.value >= 0)) wrong(line)
      now!.series.push(series)
    }
  }
  if (helped !== null) throw new Error(`HELP without TYPE: ${helped.name}`)
  for (const family of families.values()) if (family.type === 'histogram') checkHistogram(family)
  return families
}

function sampleOf(line: string): ScrapedSeries {
  const [, name, inner, number] = (SAMPLE.exec(line) ?? wrong(line)) as unknown as [
    string,
    string,
    string | undefined,
    string,
  ]
  const labels: Record<string, string> = {}
  let rest = inner ?? ''
  while (rest !== '') {
    const [all, label, value] = (LABEL.exec(rest) ?? wrong(line)) as unknown as [
      string,
      string,
      string,
    ]
    if (label in labels) wrong(line)
    labels[label] = value.replace(/\\([\\"n])/g, (_, c: string) => (c === 'n' ? '\n' : c))
    rest = rest.slice(all.length)
  }
  const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number)
  if (Number.isNaN(value)) wrong(line)
  return { name, labels, value }
}

function checkHistogram({ name, series }: ScrapedFamily): void {
  const without = ({ le: _, ...labels }: Record<string, string>) =>
    JSON.stringify(Object.entries(labels).sort())
  for (const [labels, own] of Map.groupBy(series, (s) => without(s.labels))) {
    const buckets = own.filter((s) => s.name === `${name}_bucket`)
    const bounds = buckets.map((s) =>
      s.labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(s.labels.le),
    )
    const counts = buckets.map((s) => s.value)
    const total = own.find((s) => s.name === `${name}_count`)?.value
    const ordered = (list: number[], strictly: boolean) =>
      list.every((n, i) => i === 0 || (strictly ? n > list[i - 1]! : n >= list[i - 1]!))
    if (
      !ordered(bounds, true) ||
      !ordered(counts, false) ||
      bounds.at(-1) !== Number.POSITIVE_INFINITY ||
      counts.at(-1) !== total ||
      !own.some((s) => s.name === `${name}_sum`)
    ) {
      throw new Error(`${name} ${labels} is not a valid histogram`)
    }
  }
}

function wrong(line: string): never {
  throw new Error(`not a line of Prometheus’ text format: ${line}`)
}

/** The value of the single series of a family with these labels. @throws when there is not exactly one */
export function seriesValue(
  families: Map<string, ScrapedFamily>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const family = families.get(name) ?? families.get(name.replace(/_(count|sum|bucket)$/, ''))
  const fit = (family?.series ?? []).filter(
    (s) => s.name === name && Object.entries(labels).every(([k, v]) => s.labels[k] === v),
  )
  if (fit.length !== 1) throw new Error(`${fit.length} series ${name} ${JSON.stringify(labels)}`)
  return fit[0]!.value
}
