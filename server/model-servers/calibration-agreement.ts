import { type Calibration, calibrationDiffers, differingText } from '../router/server-admission.ts'
import type { ServerRow, StoredSelfTest } from '../store/sql/servers.ts'

/** A server's name with its calibrations, one per text. */
export interface Named {
  name: string
  calibrations: Calibration[]
}

/** A server's calibrations with its engine, because engines count prompt tokens differently. */
export interface Compared {
  engine: string
  calibrations: Calibration[]
}

export function calibrationOfRow(row: Pick<ServerRow, 'engine' | 'selfTest'>): Compared {
  return { engine: row.engine, calibrations: calibrationsOf(row.selfTest) }
}

export function differ(a: Compared, b: Compared): boolean {
  return a.engine === b.engine
    ? calibrationDiffers(a.calibrations, b.calibrations)
    : calibrationDiffers(a.calibrations.map(withoutTokens), b.calibrations)
}

function withoutTokens({ score }: Calibration): Calibration {
  return { score, promptTokens: null }
}

/** The calibrations of a stored test. Tests by older versions have only one text. */
export function calibrationsOf(test: StoredSelfTest | null): Calibration[] {
  if (test === null || test.calibration === null) return []
  return test.calibrations ?? [{ score: test.calibration, promptTokens: null }]
}

/** The server's own earlier scores, with which its present scores are compared. */
export function baselinesOf(test: StoredSelfTest | null | undefined): Calibration[] {
  if (test == null) return []
  const first = test.baseline ?? test.calibration
  return test.baselines ?? (first === null ? [] : [{ score: first, promptTokens: null }])
}

export function hasDrifted(test: StoredSelfTest | null): boolean {
  return calibrationDiffers(baselinesOf(test), calibrationsOf(test))
}

export function whatDiffers(own: Calibration[], others: readonly Named[]): string {
  const odd = others.find((other) => differingText(own, other.calibrations) !== null) ?? others[0]
  const at = (odd && differingText(own, odd.calibrations)) ?? 0
  const [one, other] = figures(own[at], odd?.calibrations[at])
  const rest = others
    .filter((o) => o !== odd)
    .map((o) => `${figures(o.calibrations[at])[0]} (${o.name})`)
  const pooled = [`${other} (${odd?.name})`, ...rest].join(', ')
  return `The ${TEXTS[at]} is ${one}; in the pool: ${pooled}.${tokenizerHint(at)}`
}

export function whatDrifted(test: StoredSelfTest): string {
  const [before, now] = [baselinesOf(test), calibrationsOf(test)]
  const at = differingText(before, now) ?? 0
  const [was, is] = figures(before[at], now[at])
  return `The ${TEXTS[at]} changed from ${was} to ${is}: the weights or the scoring method changed. Register the server again to accept this.${tokenizerHint(at)}`
}

const TEXTS = [
  'calibration score',
  'score of the second calibration text (digits, code, non-ASCII)',
]

function tokenizerHint(at: number): string {
  return at === 0 ? '' : ' The plain English text agrees, so the tokenizer versions differ.'
}

function figures(...found: (Calibration | undefined)[]): string[] {
  const counts = new Set(found.map((one) => one?.promptTokens ?? null))
  return found.map((one) =>
    one === undefined
      ? 'none'
      : counts.size > 1 && one.promptTokens !== null
        ? `${show(one.score)} over ${one.promptTokens} tokens`
        : show(one.score),
  )
}

export function show(score: number | null | undefined): string {
  return score == null ? 'none' : String(Number(score.toPrecision(5)))
}
