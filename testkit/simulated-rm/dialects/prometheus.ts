import type { Answer } from '../call.ts'

export type Metric = [
  name: string,
  kind: 'gauge' | 'counter',
  value: number,
  labels?: Record<string, string>,
]

export function exposition(
  metrics: readonly Metric[],
  labels: Record<string, string> = {},
): Answer {
  let body = ''
  let last = ''
  for (const [name, kind, value, own] of metrics) {
    if (name !== last) body += `# TYPE ${name} ${kind}\n`
    last = name
    const all = Object.entries({ ...labels, ...own })
    const inside = all.map(([label, text]) => `${label}=${JSON.stringify(text)}`).join(',')
    body += `${name}${inside === '' ? '' : `{${inside}}`} ${value}\n`
  }
  return { status: 200, body, type: 'text/plain; version=0.0.4; charset=utf-8' }
}
