import { setTimeout as sleep } from 'node:timers/promises'
import { isOverridable, isTrusted, type SelfTestVerdict } from '../contract/self-test-verdict.ts'
import { mostInFlight } from '../contract/servers.ts'
import { maskSecrets } from '../mask-secrets.ts'
import {
  type Calibration,
  calibrate,
  type ScoringServer,
  type SelfTestResult,
  testScores,
} from '../router/server-admission.ts'
import { databaseNow } from '../store/clock.ts'
import { calibrationHolder, renewLease } from '../store/sql/leases.ts'
import type { ServerRow, StoredSelfTest } from '../store/sql/servers.ts'
import {
  baselinesOf,
  type Compared,
  calibrationOfRow,
  calibrationsOf,
  differ,
  hasDrifted,
  type Named,
  show,
  whatDiffers,
  whatDrifted,
} from './calibration-agreement.ts'
import type { ModelsContext } from './context.ts'
import { outliersOf, type Vote } from './pool-agreement.ts'

const SECOND_TRY_MS = 300
const CALIBRATION_CALLS = 2

export type Subject = ScoringServer &
  Pick<ServerRow, 'id' | 'name' | 'selfTestOverride' | 'selfTest' | 'state'>

export interface Examination {
  to: 'ready' | 'quarantined'
  /** The reason as text, with the scores that led to it. */
  cause: string
  evidence: Record<string, unknown>
  selfTest: StoredSelfTest
  /** Whether the server has no scoring route of its registered engine, which means that it runs another engine. */
  routeMissing: boolean
}

/**
 * Checks that servers give correct scores: raw, of the whole text, equal to the scores of their pool and to their
 * baselines. A test of one server may change the verdict of others in its pool, because in a pool of three or more the
 * minority counts as wrong.
 */
export class ScoreTrust {
  readonly #o: ModelsContext

  constructor(context: ModelsContext) {
    this.#o = context
  }

  /**
   * Tests a server that is awake and compares it with its pool. Stores nothing; {@link keep} and {@link settle} do.
   * `fresh`: the server is being registered, so its present scores become its baselines.
   */
  async examine(row: Subject, fresh = false): Promise<Examination> {
    const result = await this.#test(row)
    const { calibration, calibrations } = result
    const before = fresh ? null : row.selfTest
    const baseline = before?.baseline ?? before?.calibration ?? calibration
    const baselines = calibrations.map((now, at) => baselinesOf(before)[at] ?? now)
    const { routeMissing = false, ...tested } = result
    const known = fresh ? null : row.selfTest
    // Baselines of servers are compared by their age, so their times come from one clock.
    const baselineAt = known?.baselineAt ?? known?.at ?? (await this.#now())
    return {
      ...(await this.#judge(row, { ...tested, baseline, baselines, baselineAt })),
      routeMissing,
    }
  }

  /**
   * Checks whether the calibration scores changed or differ from the pool's, with one call per text. Returns null if
   * the server has no calibration or no free slot, did not answer, or `stop` ended the calls.
   */
  async lookForDrift(row: ServerRow, stop: AbortSignal): Promise<Examination | null> {
    const known = row.selfTest
    if (known === null || known.calibration === null) return null
    let calibrations: Calibration[] | null
    try {
      calibrations = await this.#inSlot(row, () =>
        calibrate(row, this.#o.timings.selfTestTimeoutMs / CALIBRATION_CALLS, stop),
      )
    } catch (error) {
      this.#o.log.debug({ err: (error as Error).message, server: row.name }, 'not calibrated')
      return null
    }
    if (calibrations === null) return null
    const { verdict, raw, activated, detail } = known
    const before = verdict === 'differs' ? 'raw' : (verdict as SelfTestResult['verdict'])
    return this.#judge(row, {
      verdict: before,
      raw,
      activated,
      calibration: calibrations[0]?.score ?? null,
      calibrations,
      detail: verdict === 'differs' ? 'Scores are raw.' : detail,
      baseline: known.baseline ?? known.calibration,
      baselines: calibrations.map((now, at) => baselinesOf(known)[at] ?? now),
      baselineAt: known.baselineAt ?? known.at,
    })
  }

  /** Runs a calibration that takes one slot of the server. Returns null without running it if no slot is free. */
  async #inSlot<T>(row: ServerRow, work: () => Promise<T>): Promise<T | null> {
    const { db, timings, processId } = this.#o
    const request = (demand: number) =>
      renewLease(db, {
        resource: `server:${row.id}`,
        holderId: calibrationHolder(processId),
        demand,
        inFlight: 0,
        limit: mostInFlight(row.maxInFlight, row.maxConcurrent),
        // The lease is as long as the time limit of all calls. If the process dies, the slot stays taken until the
        // lease expires.
        ttlMs: timings.selfTestTimeoutMs,
        graceMs: 0,
      })
    try {
      return (await request(1)).slots > 0 ? await work() : null
    } finally {
      await request(0).catch(() => {})
    }
  }

  /**
   * Stores a test's result. Call this before the change of state, so that the result that explains a state is always
   * stored.
   */
  keep(id: number, examination: Examination): Promise<void> {
    return this.#o.registry.selfTested(id, examination.selfTest)
  }

  /** Applies a stored examination to the other servers of the pool. */
  async settle(id: number, examination: Examination): Promise<void> {
    const { registry } = this.#o
    const rows = await registry.active()
    const own = rows.find((row) => row.id === id)
    if (!own) return
    const odd = this.#oddIn(rows.filter((row) => row.model === own.model))
    for (const row of rows) {
      if (row.id === id || row.selfTest === null || row.model !== own.model) continue
      const { verdict } = row.selfTest
      if (odd.has(row.id) && verdict === 'raw') {
        const detail = whatDiffers(calibrationsOf(row.selfTest), [
          { name: own.name, calibrations: calibrationsOf(examination.selfTest) },
        ])
        await registry.selfTested(row.id, { ...row.selfTest, verdict: 'differs', detail })
        if (row.selfTestOverride) continue
        await registry.transition(row.id, {
          to: 'quarantined',
          from: ['ready'],
          cause: `its scores differ: ${detail}`,
          evidence: { calibration: row.selfTest.calibration, pool: this.#others(rows, row) },
        })
      } else if (!odd.has(row.id) && verdict === 'differs' && !hasDrifted(row.selfTest)) {
        await registry.selfTested(row.id, {
          ...row.selfTest,
          verdict: 'raw',
          detail: 'Scores agree with the pool.',
        })
        await registry.transition(row.id, {
          to: 'ready',
          from: ['quarantined'],
          cause: `its scores agree with most of the pool (${own.name})`,
          evidence: { calibration: row.selfTest.calibration, pool: this.#others(rows, row) },
        })
      }
    }
  }

  async #test(row: Subject): Promise<SelfTestResult> {
    const once = () => testScores(row, this.#o.timings.selfTestTimeoutMs)
    const first = await once()
    if (first.verdict !== 'failed') return first
    await sleep(SECOND_TRY_MS)
    return once()
  }

  async #judge(
    row: Subject,
    result: Omit<SelfTestResult, 'verdict'> & {
      verdict: SelfTestVerdict
      baseline: number | null
      baselines: Calibration[]
      baselineAt: string
    },
  ): Promise<Examination> {
    const at = await this.#now()
    const detail = maskSecrets(result.detail, [row.apiKey])
    let selfTest: StoredSelfTest = { ...result, detail, at }
    const pool = (await this.#o.registry.active()).filter(
      (other) => other.model === row.model && other.id !== row.id,
    )
    if (isTrusted(selfTest.verdict) && selfTest.calibration !== null) {
      const others = this.#others(pool, row)
      const odd = this.#oddIn([...pool, { ...row, state: 'ready', selfTest }])
      const drifted = hasDrifted(selfTest)
      // If another server always had the new score, this server was wrong before.
      const now = selfTest
      const confirmed = pool.some(
        (other) =>
          votes(other) &&
          !hasDrifted(other.selfTest) &&
          !differ(calibrationOfRow(other), calibrationOfRow({ ...row, selfTest: now })),
      )
      if (odd.has(row.id)) {
        selfTest = differing(selfTest, whatDiffers(calibrationsOf(selfTest), others))
      } else if (drifted && !confirmed) {
        selfTest = differing(selfTest, whatDrifted(selfTest))
      } else if (drifted) {
        selfTest = {
          ...selfTest,
          baseline: selfTest.calibration,
          baselines: calibrationsOf(selfTest),
        }
      }
    }
    const { verdict, raw, activated, calibration, baseline } = selfTest
    const trusted = isTrusted(verdict)
    const overridden = row.selfTestOverride && isOverridable(verdict)
    return {
      to: trusted || overridden ? 'ready' : 'quarantined',
      cause: trusted
        ? verdict === 'raw'
          ? `scores are raw, calibration ${show(calibration)}`
          : selfTest.detail
        : `${overridden ? 'trusted anyway: ' : ''}self-test ${verdict}: ${selfTest.detail}`,
      evidence: {
        verdict,
        raw,
        activated,
        calibration,
        baseline: baseline ?? null,
        pool: this.#others(pool, row).map(({ name, calibrations }) => ({
          name,
          calibration: calibrations[0]?.score ?? null,
        })),
      },
      selfTest,
      routeMissing: false,
    }
  }

  async #now(): Promise<string> {
    return (await databaseNow(this.#o.db.pool)).toISOString()
  }

  #oddIn(rows: readonly Subject[]): Set<number> {
    const all = rows.filter(votes).map(
      (row): Vote<Compared> => ({
        id: row.id,
        sinceMs: Date.parse(row.selfTest!.baselineAt ?? row.selfTest!.at),
        calibration: calibrationOfRow(row),
        drifted: hasDrifted(row.selfTest),
      }),
    )
    return outliersOf(all, differ)
  }

  #others(rows: readonly Subject[], than: Subject): Named[] {
    return rows
      .filter((row) => row.id !== than.id && row.model === than.model && votes(row))
      .map((row) => ({ name: row.name, calibrations: calibrationsOf(row.selfTest) }))
  }
}

/**
 * True for servers whose calibration counts when a pool is compared: reachable, tested, and with the verdict `raw`,
 * `not_applicable` or `differs`.
 */
function votes(row: Subject): boolean {
  const { selfTest: test, state } = row
  return (
    test !== null &&
    test.calibration !== null &&
    (isTrusted(test.verdict) || test.verdict === 'differs') &&
    state !== 'unreachable' &&
    state !== 'dead' &&
    state !== 'registering'
  )
}

function differing(test: StoredSelfTest, detail: string): StoredSelfTest {
  return { ...test, verdict: 'differs', detail }
}
