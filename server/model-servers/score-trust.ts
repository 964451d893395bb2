import { setTimeout as sleep } from 'node:timers/promises'
import { isOverridable, isTrusted, type SelfTestVerdict } from '../contract/self-test-verdict.ts'
import {
  type Calibration,
  calibrate,
  type SelfTestResult,
  testScores,
} from '../router/server-admission.ts'
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
import { type ModelsContext, type ScoringRow, scoringServer } from './context.ts'
import { oddOnesOut, type Vote } from './pool-agreement.ts'
import { maskSecrets } from './secrets.ts'

/** A test that gave no verdict is made once more after this long: one lost call condemns nobody. */
const SECOND_TRY_MS = 300

/** What of a server's row its scores are judged by. */
export type Subject = ScoringRow &
  Pick<ServerRow, 'id' | 'name' | 'self_test_override' | 'self_test' | 'state'>

/** What a look at a server's scores says of it. */
export interface Examination {
  to: 'ready' | 'quarantined'
  /** In words, with the numbers. */
  cause: string
  evidence: Record<string, unknown>
  selfTest: StoredSelfTest
  /** The server has no route for scores as its engine is asked: it is another. */
  routeMissing: boolean
}

/**
 * Whether servers give the scores they should: raw, of whole texts, the same as their pool's and as before. What a test
 * says of one may say something of the others of its pool too: with three and more, the minority is the odd one out.
 */
export class ScoreTrust {
  readonly #o: ModelsContext

  constructor(context: ModelsContext) {
    this.#o = context
  }

  /**
   * Tests a server that is awake and compares it with its pool. Changes nothing: see
   * {@link keep} and {@link settle}. `fresh`: it is being registered, so what it scores now is what it is held to from now on.
   */
  async examine(row: Subject, fresh = false): Promise<Examination> {
    const result = await this.#test(row)
    const { calibration, calibrations } = result
    const before = fresh ? null : row.self_test
    const baseline = before?.baseline ?? before?.calibration ?? calibration
    const baselines = calibrations.map((now, at) => baselinesOf(before)[at] ?? now)
    const { routeMissing = false, ...tested } = result
    const known = fresh ? null : row.self_test
    const baselineAt = known?.baselineAt ?? known?.at ?? new Date().toISOString()
    return {
      ...(await this.#judge(row, { ...tested, baseline, baselines, baselineAt })),
      routeMissing,
    }
  }

  /**
   * One call: has its score of the fixed text changed, or come to differ from its pool's? Null: nothing to say (it has
   * no such score, or did not answer).
   */
  async lookForDrift(row: ServerRow): Promise<Examination | null> {
    const known = row.self_test
    if (known === null || known.calibration === null) return null
    let calibrations: Calibration[] | null
    try {
      calibrations = await calibrate(scoringServer(row), this.#o.timings.selfTestTimeoutMs)
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
      detail: verdict === 'differs' ? 'Scores raw.' : detail,
      baseline: known.baseline ?? known.calibration,
      // A text that an older test did not ask has no baseline yet.
      baselines: calibrations.map((now, at) => baselinesOf(known)[at] ?? now),
      baselineAt: known.baselineAt ?? known.at,
    })
  }

  /** Stores what a test found; to be done before the change of state that it means, so that nobody sees it unexplained. */
  keep(id: number, examination: Examination): Promise<void> {
    return this.#o.registry.selfTested(id, examination.selfTest)
  }

  /** What an examination that was stored says of the others of the pool. */
  async settle(id: number, examination: Examination): Promise<void> {
    const { registry } = this.#o
    const rows = await registry.active()
    const own = rows.find((row) => row.id === id)
    if (!own) return
    const odd = this.#oddIn(rows.filter((row) => row.model === own.model))
    for (const row of rows) {
      if (row.id === id || row.self_test === null || row.model !== own.model) continue
      const { verdict } = row.self_test
      if (odd.has(row.id) && verdict === 'raw') {
        const detail = whatDiffers(calibrationsOf(row.self_test), [
          { name: own.name, calibrations: calibrationsOf(examination.selfTest) },
        ])
        await registry.selfTested(row.id, { ...row.self_test, verdict: 'differs', detail })
        if (row.self_test_override) continue
        await registry.transition(row.id, {
          to: 'quarantined',
          from: ['ready'],
          cause: `its scores differ: ${detail}`,
          evidence: { calibration: row.self_test.calibration, pool: this.#others(rows, row) },
        })
      } else if (!odd.has(row.id) && verdict === 'differs' && !hasDrifted(row.self_test)) {
        await registry.selfTested(row.id, {
          ...row.self_test,
          verdict: 'raw',
          detail: 'Scores agree with the pool.',
        })
        await registry.transition(row.id, {
          to: 'ready',
          from: ['quarantined'],
          cause: `its scores agree with most of the pool (${own.name})`,
          evidence: { calibration: row.self_test.calibration, pool: this.#others(rows, row) },
        })
      }
    }
  }

  async #test(row: Subject): Promise<SelfTestResult> {
    const once = () => testScores(scoringServer(row), this.#o.timings.selfTestTimeoutMs)
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
    const at = new Date().toISOString()
    const detail = maskSecrets(result.detail, [row.api_key])
    let selfTest: StoredSelfTest = { ...result, detail, at }
    const pool = (await this.#o.registry.active()).filter(
      (other) => other.model === row.model && other.id !== row.id,
    )
    if (isTrusted(selfTest.verdict) && selfTest.calibration !== null) {
      const others = this.#others(pool, row)
      const odd = this.#oddIn([...pool, { ...row, state: 'ready', self_test: selfTest }])
      const drifted = hasDrifted(selfTest)
      // Where another always held the new score, it is this one that had been wrong.
      const now = selfTest
      const confirmed = pool.some(
        (other) =>
          votes(other) &&
          !hasDrifted(other.self_test) &&
          !differ(calibrationOfRow(other), calibrationOfRow({ ...row, self_test: now })),
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
    const overridden = row.self_test_override && isOverridable(verdict)
    return {
      to: trusted || overridden ? 'ready' : 'quarantined',
      cause: trusted
        ? verdict === 'raw'
          ? `scores raw, calibration ${show(calibration)}`
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

  #oddIn(rows: readonly Subject[]): Set<number> {
    const all = rows.filter(votes).map(
      (row): Vote<Compared> => ({
        id: row.id,
        sinceMs: Date.parse(row.self_test!.baselineAt ?? row.self_test!.at),
        calibration: calibrationOfRow(row),
        drifted: hasDrifted(row.self_test),
      }),
    )
    return oddOnesOut(all, differ)
  }

  #others(rows: readonly Subject[], than: Subject): Named[] {
    return rows
      .filter((row) => row.id !== than.id && row.model === than.model && votes(row))
      .map((row) => ({ name: row.name, calibrations: calibrationsOf(row.self_test) }))
  }
}

/** Servers whose calibration score counts when a pool is compared: tested, raw, and not gone. */
function votes(row: Subject): boolean {
  const { self_test: test, state } = row
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
