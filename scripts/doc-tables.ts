import type { z } from 'zod'
import { commandNames, loadCommand } from '../packages/cli/registry.ts'
import { Settings } from '../server/config.ts'
import {
  EXPORTED_RESULT_COLUMNS,
  EXPORTED_ROLLOUT_COLUMNS,
  TYPED_COLUMNS,
} from '../server/contract/csv-cells.ts'
import { ENGINE_NAMES, ENGINES } from '../server/contract/engines.ts'
import { MONITOR_DEFINITIONS, MONITORS, type MonitorName } from '../server/contract/monitors.ts'
import { BALANCING_POLICIES, DEFAULT_POLICY, POLICY_NAMES } from '../server/contract/pools.ts'
import { SCORE_ROUTES } from '../server/contract/servers.ts'
import type { Engine, ScoreRoute } from '../server/engines/engine.ts'
import { engineOf } from '../server/engines/registry.ts'
import { describeMetrics } from '../server/http/metrics.ts'
import { valueText } from '../server/monitoring/alerts/alert-payload.ts'
import { MONITOR_READERS } from '../server/monitoring/definitions.ts'
import { describeOptions } from '../server/rewards/registered.ts'
import { listAsyncRules, listRules } from '../server/rewards/rules/registry.ts'
import type { RuleDescription } from '../server/rewards/rules/rule.ts'

const RULES: readonly RuleDescription[] = [...listRules(), ...listAsyncRules()]

const COMMANDS = await Promise.all(commandNames().map(loadCommand))

/**
 * The tables of docs/ that are generated from definitions in the code. A page encloses a table in
 * `<!-- table: policies -->` and `<!-- /table -->`.
 */
const TABLES: Readonly<Record<string, () => Table>> = {
  policies: () => ({
    head: ['policy', 'name', 'choice'],
    rows: POLICY_NAMES.map((name) => [
      name === DEFAULT_POLICY ? `${code(name)} (default)` : code(name),
      BALANCING_POLICIES[name].label,
      BALANCING_POLICIES[name].choice,
    ]),
  }),
  'export-columns': () => ({
    head: ['part', 'columns'],
    rows: [
      ['rollout', codes(EXPORTED_ROLLOUT_COLUMNS)],
      ['result', codes(EXPORTED_RESULT_COLUMNS)],
    ],
  }),
  'parquet-types': () => ({
    head: ['columns', 'type'],
    rows: [
      [codes(TYPED_COLUMNS.integer), '32-bit integer'],
      [codes(TYPED_COLUMNS.number), 'double'],
      [codes(TYPED_COLUMNS.boolean), 'boolean'],
      [codes(TYPED_COLUMNS.time), 'timestamp in UTC, microseconds'],
      [
        'all others',
        'text: chat messages, `extraInfo`, `rewardExtraInfo`, `rewards` and `annotations` are JSON, other values are as in CSV',
      ],
    ],
  }),
  commands: () => ({
    head: ['command', 'what it does'],
    rows: COMMANDS.flatMap((one) => (one === null ? [] : [[code(one.name), one.summary]])),
  }),
  engines: () => ({
    head: [
      ...['engine', 'name', 'scores', '[judges](judges.md)', '[chat template](#chat-templates)'],
      ...[
        '[self-test](#self-test)',
        '[micro-batches](router.md#micro-batching)',
        '[sleep](#sleep)',
      ],
    ],
    rows: ENGINE_NAMES.map((name) => {
      const { scores, chats, templated, selfTested, microBatch, lifecycle } = engineOf(name)
      const abilities = [
        scores,
        chats,
        templated,
        selfTested,
        microBatch !== null,
        lifecycle !== null,
      ]
      return [code(name), ENGINES[name].servers, ...abilities.map((can) => (can ? 'yes' : 'no'))]
    }),
  }),
  'score-routes': () => ({
    head: ['engine', ...SCORE_ROUTES.map(code), '`label`'],
    rows: ENGINE_NAMES.map(engineOf)
      .filter(({ routes }) => routes.length > 0)
      .map((engine) => [
        code(engine.name),
        ...SCORE_ROUTES.map((route) =>
          engine.routes.includes(route) ? scorePath(engine, route) : '',
        ),
        LABELS[engine.labels ?? 'none'],
      ]),
  }),
  monitors: () => ({
    head: ['monitor', 'figure', 'minimum n', 'warning', 'alerting', 'batches in a row'],
    rows: MONITORS.map((name) => {
      const { minCount, countedUnit, warning, alerting, openAfter } = MONITOR_DEFINITIONS[name]
      return [
        code(name),
        MONITOR_READERS[name].figure,
        `${minCount} ${countedUnit}`,
        threshold(name, warning),
        threshold(name, alerting),
        String(openAfter),
      ]
    }),
  }),
  settings: () => ({
    head: ['name', 'default', 'meaning'],
    rows: Object.entries(Settings.shape).flatMap(([name, schema]) => {
      const { description } = schema
      if (description === undefined) return []
      const value = schema.parse(undefined) ?? ''
      return [[code(name), value === '' ? 'unset' : code(String(value)), description]]
    }),
  }),
  rules: () => ({
    head: ['rule', 'data sources', 'verl file', 'ground truth', 'score'],
    rows: RULES.map(({ name, dataSources, docs }) => [
      code(name),
      dataSources.length === 0 ? 'by name only' : dataSources.map(code).join(', '),
      docs.verlFile,
      docs.groundTruth,
      docs.score,
    ]),
  }),
  'rule-options': () => ({
    head: ['rule', 'option', 'default', 'meaning'],
    rows: [
      ...RULES.flatMap(({ name, kwargs }) =>
        optionRows(code(name), kwargs, (key) => !isOfAllRules(key)),
      ),
      ...optionRows('all', RULES[0]!.kwargs, isOfAllRules),
    ],
  }),
  'rule-results': () => ({
    head: ['rule', 'reason', 'keys of `rewardExtraInfo`'],
    rows: RULES.map(({ name, docs }) => [code(name), docs.reason, docs.extraInfo]),
  }),
  ...Object.fromEntries(
    Object.entries(describeMetrics()).map(([section, families]) => [
      `metrics-${section}`,
      () => ({
        head: ['metric', 'type', 'meaning'],
        rows: families.map(({ name, type, help }) => [code(name), type, help]),
      }),
    ]),
  ),
}

function threshold(monitor: MonitorName, value: number): string {
  const sides = { above: '≥ ', below: '≤ ', size: '±' }
  return sides[MONITOR_DEFINITIONS[monitor].bad] + valueText(monitor, value)
}

function isOfAllRules(key: string): boolean {
  return RULES.every(({ kwargs }) => kwargs.shape[key] === RULES[0]!.kwargs.shape[key])
}

function optionRows(rule: string, kwargs: z.ZodObject, isIncluded: (key: string) => boolean) {
  const options = describeOptions(kwargs).filter(({ name }) => isIncluded(name))
  return options.map(({ name, defaultJson }, at) => [
    at === 0 ? rule : '',
    code(name),
    defaultJson?.replaceAll('"', '`') ?? '',
    (kwargs.shape[name] as z.ZodType).description ?? '',
  ])
}

const LABELS = { index: 'index', name: 'index or name', two: '0 or 1', none: 'none' }

function scorePath(engine: Engine, route: ScoreRoute): string {
  const target = { model: 'rm', version: null, route }
  return code(engine.buildScoreRequest({ prompt: 'Q', response: 'A' }, target).path)
}

interface Table {
  head: string[]
  rows: string[][]
}

const MARKED = /(<!-- table: ([\w-]+) -->\n)[\s\S]*?(<!-- \/table -->)/g

/** Replaces the generated tables of a page with their current content. @throws Error for an unknown table name */
export function withTables(page: string): string {
  return page.replace(MARKED, (_, begin: string, name: string, end: string) => {
    const table = TABLES[name]?.()
    if (table === undefined) throw new Error(`there is no table "${name}" in scripts/doc-tables.ts`)
    return `${begin}${markdownTable(table.head, table.rows)}\n${end}`
  })
}

export function markdownTable(head: string[], rows: readonly string[][]): string {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
    .replaceAll('| --- |', '|---|')
    .replaceAll(' --- |', '---|')
}

const code = (text: string) => `\`${text}\``
const codes = (texts: readonly string[]) => texts.map(code).join(' ')
