import {
  type CONFIG_OPERATORS,
  type ConfigFilter,
  RUN_SORTS,
  RUN_STATUSES,
  type RunSort,
  type RunStatus,
} from '../../server/contract/run-table.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** Optional columns that are not values of the configuration. */
export const EXTRA_COLUMNS = {
  created: 'Created',
  batches: 'Training batches',
  validation: 'Validation batches',
  rescored: 'Rescored batches',
} as const
export type ExtraColumn = keyof typeof EXTRA_COLUMNS

const CONFIG_PREFIX = 'config.'
/** The service returns at most this many values of the configuration. */
const MAX_COLUMNS = 20

export interface RunsUrl {
  named: string
  tags: string[]
  status: RunStatus | null
  where: ConfigFilter[]
  /** The column by which the runs are sorted, or `config.` followed by a configuration key. */
  sort: RunSort | `config.${string}`
  order: 'asc' | 'desc'
  byTag: boolean
  /** Optional columns, each a key of `EXTRA_COLUMNS`, or `config.` and a configuration key. */
  columns: string[]
  chosen: string[]
}

export const NO_RUN_FILTERS = { named: '', tags: [], status: null, where: [] }

export const runsUrl: UrlCodec<RunsUrl> = {
  parse(params) {
    const sort = params.get('sort') ?? ''
    const status = params.get('status') as RunStatus
    return {
      named: params.get('named') ?? '',
      tags: params.getAll('tag'),
      status: RUN_STATUSES.includes(status) ? status : null,
      where: params.getAll('where').flatMap((text) => parseCondition(text) ?? []),
      sort: isSort(sort) ? sort : 'activity',
      order: params.get('order') === 'asc' ? 'asc' : 'desc',
      byTag: params.get('by') === 'tag',
      columns: params
        .getAll('col')
        .filter((name) => Object.hasOwn(EXTRA_COLUMNS, name) || configKey(name) !== null)
        .slice(0, MAX_COLUMNS),
      chosen: params.getAll('run'),
    }
  },
  write({ named, tags, status, where, sort, order, byTag, columns, chosen }) {
    const params = new URLSearchParams()
    if (named !== '') params.set('named', named)
    for (const tag of tags) params.append('tag', tag)
    if (status !== null) params.set('status', status)
    for (const condition of where) params.append('where', conditionText(condition))
    if (sort !== 'activity') params.set('sort', sort)
    if (order !== 'desc') params.set('order', order)
    if (byTag) params.set('by', 'tag')
    for (const column of columns) params.append('col', column)
    for (const run of chosen) params.append('run', run)
    return params
  },
}

function isSort(sort: string): sort is RunsUrl['sort'] {
  return RUN_SORTS.includes(sort as RunSort) || configKey(sort) !== null
}

export function configKey(column: string): string | null {
  const key = column.startsWith(CONFIG_PREFIX) ? column.slice(CONFIG_PREFIX.length) : ''
  return key === '' ? null : key
}

export function runTableInput({
  named,
  tags,
  status,
  where,
  sort,
  order,
  byTag,
  columns,
}: RunsUrl) {
  const sortConfig = configKey(sort)
  return {
    ...(named.trim() === '' ? {} : { search: named.trim() }),
    tags,
    ...(status === null ? {} : { status }),
    config: where,
    ...(sortConfig === null ? { sort: sort as RunSort } : { sortConfig }),
    order,
    byTag,
    columns: columns.flatMap((column) => configKey(column) ?? []),
  }
}

/**
 * Parses a condition as typed: `optimizer.lr < 1e-5`. If exactly one of `keys` ends with a typed suffix, such as `lr`,
 * the suffix stands for this key. Returns null if the operator or the key is missing.
 */
export function parseCondition(text: string, keys: readonly string[] = []): ConfigFilter | null {
  const match = /^(.*?)(!=|<=|>=|=|<|>|~)(.*)$/s.exec(text)
  const [key, is, value] = [match?.[1]?.trim(), match?.[2], match?.[3]?.trim()]
  if (!key || value === undefined) return null
  const [meant, ...others] = keys.includes(key) ? [] : keys.filter((one) => one.endsWith(`.${key}`))
  return {
    key: meant !== undefined && others.length === 0 ? meant : key,
    is: is as (typeof CONFIG_OPERATORS)[number],
    value,
  }
}

export function conditionText({ key, is, value }: ConfigFilter): string {
  return `${key} ${is} ${value}`
}
