import { MAX_STEP } from '../contract/fields.ts'
import {
  type IncidentPageDto,
  MONITOR_DEFINITIONS,
  MONITORS,
  type MonitorConfigureInput,
  type MonitorHistoryInput,
  type MonitorName,
  type MonitorRunInput,
  type MonitorSettingDto,
  type MonitorSettingsInput,
  type MonitorState,
  type MonitorsDto,
  type RunMonitorsDto,
} from '../contract/monitors.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { toDto } from '../store/row-of.ts'
import { monitorSettings } from '../store/sql/monitor-state.ts'
import {
  evaluationsOf,
  latestStandings,
  listIncidents,
  openIncidents,
  runIdOf,
  runsWithSetting,
  type StandingRow,
  setMonitorSetting,
  standingOf,
  standingSplits,
  waitingForMonitors,
} from '../store/sql/monitor-views.ts'
import { isBeyond } from './hysteresis.ts'
import { settingsOf } from './monitor-settings.ts'

const MAX_OPEN = 100
/** Maximum number of rows in the list. Each run and split has one row; those with the newest batches are listed. */
const MAX_RUNS = 40
const MAX_RUN_INCIDENTS = 100
const MAX_WAITING = 10_000

export class MonitorsView {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  async list(): Promise<MonitorsDto> {
    const [open, standings, pending] = await Promise.all([
      openIncidents(this.#db, MAX_OPEN + 1),
      latestStandings(this.#db, MAX_RUNS + 1),
      waitingForMonitors(this.#db, MAX_WAITING),
    ])
    const settings = await monitorSettings(this.#db.pool, [
      0,
      ...new Set(standings.map(({ run_id }) => run_id)),
    ])
    return {
      open: open.slice(0, MAX_OPEN).map(toDto),
      hasMoreOpen: open.length > MAX_OPEN,
      runs: standings.slice(0, MAX_RUNS).map((row) => {
        const of = settingsOf(settings, row.run_id)
        return {
          ...{ run: row.run, split: row.split, seeded: row.seeded, lastStep: row.step },
          lastAt: row.at.toISOString(),
          monitors: MONITORS.map((monitor) => {
            const standing = row.monitors[monitor]
            return {
              monitor,
              state: stateOf(standing, of[monitor].enabled),
              value: standing?.value ?? null,
              step: standing?.step ?? row.step,
            }
          }),
        }
      }),
      hasMoreRuns: standings.length > MAX_RUNS,
      pending,
    }
  }

  /** @throws RewardOpsError `run_not_found` */
  async run({
    run,
    split,
    points,
    from = 0,
    until = MAX_STEP,
  }: MonitorRunInput): Promise<RunMonitorsDto> {
    const runId = await this.#runId(run)
    const [{ rows, earlier }, settings, splits, incidents, standings] = await Promise.all([
      evaluationsOf(this.#db, { runId, split, from, until }, points),
      monitorSettings(this.#db.pool, [0, runId]),
      standingSplits(this.#db, runId),
      listIncidents(this.#db, { run, split, beforeId: null, limit: MAX_RUN_INCIDENTS + 1 }),
      this.#standing(runId, split),
    ])
    const judged = settingsOf(settings, runId)
    return {
      ...{ run, split, splits, earlier },
      monitors: MONITORS.map((monitor) => ({
        setting: judged[monitor],
        state: stateOf(standings[monitor], judged[monitor].enabled),
        points: rows.map(({ batch_id, step, values }) => {
          const {
            value = null,
            n = 0,
            state = 'insufficient',
            detail = null,
          } = values[monitor] ?? {}
          return { step, batchId: `b${batch_id}`, value, n, state: state as MonitorState, detail }
        }),
      })),
      incidents: incidents.slice(0, MAX_RUN_INCIDENTS).map(toDto),
      hasMoreIncidents: incidents.length > MAX_RUN_INCIDENTS,
    }
  }

  /** @throws RewardOpsError `cursor_mismatch` */
  async history({ cursor, limit, run, monitor }: MonitorHistoryInput): Promise<IncidentPageDto> {
    const rows = await listIncidents(this.#db, {
      ...{ run, monitor, limit: limit + 1 },
      beforeId: cursor ? idOf(cursor, 'monitors.history') : null,
    })
    const items = rows.slice(0, limit).map(toDto)
    return { items, nextCursor: rows.length > limit ? (items.at(-1)?.id ?? null) : null }
  }

  /** @throws RewardOpsError `run_not_found` */
  async settings({ run }: MonitorSettingsInput): Promise<MonitorSettingDto[]> {
    const runId = run ? await this.#runId(run) : 0
    const settings = settingsOf(await monitorSettings(this.#db.pool, [0, runId]), runId)
    return MONITORS.map((monitor) => settings[monitor])
  }

  /** @throws RewardOpsError `run_not_found`, and `invalid_input` for contradictory thresholds */
  async configure(input: MonitorConfigureInput, by: string): Promise<MonitorSettingDto> {
    const { run, monitor, ...values } = input
    const runId = run === null ? 0 : await this.#runId(run)
    // A run's setting may take thresholds from the setting for all runs, so a change for all runs is also checked with
    // the setting of each run.
    const runs =
      run === null ? await runsWithSetting(this.#db, monitor) : [{ id: runId, name: run }]
    const rows = await monitorSettings(this.#db.pool, [0, ...runs.map(({ id }) => id)])
    const would = [
      ...rows.filter((row) => row.run_id !== runId || row.monitor !== monitor),
      {
        ...{ run_id: runId, monitor, enabled: values.enabled, warning: values.warning },
        ...{ alerting: values.alerting, open_after: values.openAfter },
        ...{ changed_by: by, changed_at: new Date() },
      },
    ]
    checkThresholds(monitor, settingsOf(would, runId)[monitor])
    for (const { id, name } of runs) {
      if (id !== runId) checkThresholds(monitor, settingsOf(would, id)[monitor], name)
    }
    await setMonitorSetting(this.#db, { runId, monitor, ...values, by })
    return (await this.settings({ run })).find((one) => one.monitor === monitor)!
  }

  async #standing(runId: number, split: string): Promise<StandingRow['monitors']> {
    return (await standingOf(this.#db, runId, split)) ?? {}
  }

  async #runId(name: string): Promise<number> {
    const id = await runIdOf(this.#db, name)
    if (id === undefined) throw runNotFound(name)
    return id
  }
}

/**
 * Throws `invalid_input` for impossible or contradictory thresholds. `run` is the name of the affected run, for the
 * message.
 */
function checkThresholds(
  monitor: MonitorName,
  would: Pick<MonitorSettingDto, 'warning' | 'alerting'>,
  run?: string,
): void {
  const of = run === undefined ? '' : `run "${run}": `
  const definition = MONITOR_DEFINITIONS[monitor]
  const within = definition.unit === 'ratio' || definition.unit === 'score' ? 1e6 : 1
  for (const name of ['warning', 'alerting'] as const) {
    if (!Number.isFinite(would[name]) || would[name] < 0 || would[name] > within) {
      throw new RewardOpsError(
        'invalid_input',
        `${of}${name}: ${would[name]} is not a valid threshold of ${monitor}; use a number from 0 to ${within}.`,
      )
    }
  }
  if (!isBeyond(would.alerting, would.warning, definition)) {
    const side = definition.bad === 'below' ? 'at most' : 'at least'
    throw new RewardOpsError(
      'invalid_input',
      `${of}alerting: ${would.alerting} is reached before the warning at ${would.warning}; use ${side} ${would.warning}.`,
    )
  }
}

/** Parses an id of the API (`i12`, `w3`, `d4`, `m5`). @throws RewardOpsError `cursor_mismatch` */
export function idOf(text: string, of: string): number {
  const match = /^[a-z](\d{1,9})$/.exec(text)
  if (!match)
    throw new RewardOpsError('cursor_mismatch', `"${text}" is not a cursor of ${of}.`, {
      hint: `Use the nextCursor of ${of}, or null to start from the beginning.`,
    })
  return Number(match[1])
}

function stateOf(standing: { state: string } | undefined, enabled: boolean): MonitorState | 'off' {
  if (!enabled) return 'off'
  return (standing?.state ?? 'insufficient') as MonitorState
}
