import { z } from 'zod'
import { median } from '../../median.ts'
import { parseBody } from './parse-body.ts'

const TASK = '_ng_task_index'
const ROLLOUT = '_ng_rollout_index'

const Body = z.looseObject({
  verify_responses: z.array(
    z.looseObject({ [TASK]: z.number().optional(), response: z.looseObject({}).nullish() }),
  ),
})
type Row = z.infer<typeof Body>['verify_responses'][number]

/** Metrics by name. Undefined metrics are left out, as Gym leaves out NaN. */
type Metrics = Record<string, number>

/**
 * Gym's `POST /aggregate_metrics`: mean, maximum, minimum, median and standard deviation (n − 1) of every number at the
 * top level of the verified responses and of `response.usage`, over all responses and by task. Failed responses do not
 * count.
 * Source: nemo_gym/reward_profile.py.
 */
export function aggregateMetrics(body: unknown): unknown {
  const rows = parseBody(Body, body).verify_responses.filter(
    (row) => row._ng_failure_class == null && row.mask_sample !== true,
  )
  if (rows.length === 0) return { group_level_metrics: [], agent_metrics: {}, key_metrics: {} }
  const tasks = Map.groupBy(rows, (row) => row[TASK] ?? 0)
  const names = [...new Set(rows.flatMap((row) => Object.keys(numbersOf(row))))]
  const agent = describe(rows, names)
  return {
    group_level_metrics: [...tasks]
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([task, members]) => ({
        ...describe(members, names),
        num_rollouts: members.length,
        sample: { agent_ref: { name: 'agent' } },
        [TASK]: task,
      })),
    agent_metrics: agent,
    key_metrics: Object.fromEntries(
      Object.entries(agent).filter(([name]) => name.startsWith('mean/')),
    ),
  }
}

function numbersOf(row: Row): Metrics {
  const usage = row.response?.usage
  const all = { ...row, ...(typeof usage === 'object' ? usage : {}) }
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]): [string, number][] => {
      if (name === TASK || name === ROLLOUT) return []
      if (typeof value === 'boolean') return [[name, value ? 1 : 0]]
      return typeof value === 'number' ? [[name, value]] : []
    }),
  )
}

function describe(rows: readonly Row[], names: readonly string[]): Metrics {
  const numbers = rows.map(numbersOf)
  const columns = names.map((name) => ({
    name,
    values: numbers.flatMap((row) => (row[name] === undefined ? [] : [row[name]])),
  }))
  // Gym writes a standard deviation of 0 if there is only one response, but omits the standard deviation of a number
  // that only one of several responses has.
  const single = columns.every(({ values }) => values.length < 2)
  const out: Metrics = {}
  for (const { name, values } of columns) {
    if (values.length === 0) continue
    const sorted = values.toSorted((a, b) => a - b)
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    out[`mean/${name}`] = mean
    out[`max/${name}`] = sorted.at(-1) as number
    out[`min/${name}`] = sorted[0] as number
    out[`median/${name}`] = median(values)
    if (values.length > 1) {
      const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
      out[`std/${name}`] = Math.sqrt(squares / (values.length - 1))
    } else if (single && values.length === rows.length) out[`std/${name}`] = 0
  }
  return out
}
