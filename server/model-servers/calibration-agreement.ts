import { type Calibration, calibrationDiffers, differingText } from '../router/server-admission.ts'
import type { ServerRow, StoredSelfTest } from '../store/sql/servers.ts'

/** A server's name with its calibration. */
export interface Named {
  name: string
  calibrations: Calibration[]
}

/** A server's calibration as it is compared: engines count prompt tokens each in their own way. */
export interface Compared {
  engine: string
  calibrations: Calibration[]
}

/** A server's calibration with what it may be compared by. */
export function calibrationOfRow(row: Pick<ServerRow, 'engine' | 'self_test'>): Compared {
  return { engine: row.engine, calibrations: calibrationsOf(row.self_test) }
}

/** Whether two servers give different scores: token counts are compared within one engine. */
export function differ(a: Compared, b: Compared): boolean {
  return a.engine === b.engine
    ? calibrationDiffers(a.calibrations, b.calibrations)
    : calibrationDiffers(a.calibrations.map(withoutTokens), b.calibrations)
}

function withoutTokens({ score }: Calibration): Calibration {
  return { score, promptTokens: null }
}

/** Of a test made by an older version, the one text that it asked. */
export function calibrationsOf(test: StoredSelfTest | null): Calibration[] {
  if (test === null || test.calibration === null) return []
  return test.calibrations ?? [{ score: test.calibration, promptTokens: null }]
}

/** What a server is held to. */
export function baselinesOf(test: StoredSelfTest | null | undefined): Calibration[] {
  if (test == null) return []
  const first = test.baseline ?? test.calibration
  return test.baselines ?? (first === null ? [] : [{ score: first, promptTokens: null }])
}

/** Whether a server scores otherwise than it is held to. */
export function hasDrifted(test: StoredSelfTest | null): boolean {
  return calibrationDiffers(baselinesOf(test), calibrationsOf(test))
}

/** The first text on which a server and one of its pool disagree, with what each made of it. */
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

/** The first text whose score has drifted, in a sentence. */
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

/** Agreement on plain English with disagreement on digits is what another tokenizer version looks like. */
function tokenizerHint(at: number): string {
  return at === 0 ? '' : ' The plain English text agrees, so the tokenizer versions differ.'
}

/** Scores as they are shown, with the prompt tokens where those differ. */
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

/** A score as it is shown in a sentence. */
export function show(score: number | null | undefined): string {
  return score == null ? 'none' : String(Number(score.toPrecision(5)))
}
