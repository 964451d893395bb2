import type { ReactNode } from 'react'
import { MAX_VISITS, type PromptRowDto, RECENT_VISITS } from '../../server/contract/prompts.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import { formatPoints, formatScore, formatSigned, percentText, plural } from '../format/numbers.ts'
import { firstLine } from '../format/text.ts'
import { MarkedText } from '../rollouts/marked-text.tsx'

/** The number of visits needed to compute a change: the last two visits, and an earlier visit. */
export const CHANGE_VISITS = RECENT_VISITS + 1

export function PromptName({ prompt }: { prompt: Pick<PromptRowDto, 'promptId' | 'preview'> }) {
  const line = firstLine(prompt.preview)
  return (
    <>
      {prompt.promptId !== null && (
        <span className="mr-2 font-mono text-xs font-medium">{prompt.promptId}</span>
      )}
      {line === '' ? (
        <span className="text-ink-3">Empty prompt</span>
      ) : (
        <span className={prompt.promptId === null ? '' : 'text-ink-2'}>
          <MarkedText text={line} />
        </span>
      )}
    </>
  )
}

/** The number of listed visits. Only the newest {@link MAX_VISITS} visits are stored. */
export function visitsText(visits: number): string {
  return `${visits < MAX_VISITS ? '' : 'Newest '}${plural(visits, 'visit')}`
}

/** The pass rate, or the mean score where samples do not pass or fail. */
export function rateText(passRate: number | null, mean: number | null): string {
  return passRate === null ? formatScore(mean) : percentText(passRate)
}

export function rateLabel(prompts: readonly Pick<PromptRowDto, 'passRate'>[]): string {
  if (prompts.every(({ passRate }) => passRate !== null)) return 'Pass rate'
  return prompts.every(({ passRate }) => passRate === null) ? 'Mean' : 'Pass rate or mean'
}

export const NO_CHANGE = `Needs ${CHANGE_VISITS} visits`

/** A change of the pass rate in points, or of the mean score; {@link NO_CHANGE} if there is none. */
export function ChangeText({ prompt }: { prompt: Pick<PromptRowDto, 'passRate' | 'change'> }) {
  const { passRate, change } = prompt
  if (change === null) {
    return (
      <span className="text-xs text-ink-3" title="Compares the last two visits with earlier ones">
        {NO_CHANGE}
      </span>
    )
  }
  if (passRate === null) return formatSigned(change)
  const { value, unit } = formatPoints(change)
  return (
    <>
      {value}
      <span className="unit">&nbsp;{unit}</span>
    </>
  )
}

/** The rates of the last visits. `slots` is the number of visits that fill the width. */
export function RecentRates({ prompt, slots }: { prompt: PromptRowDto; slots: number }): ReactNode {
  const { passRate, recent } = prompt
  const text = (at: number) => {
    const rate = recent.at(at)?.rate ?? null
    return passRate === null ? formatScore(rate) : percentText(rate)
  }
  return (
    <Sparkline
      readings={recent.map(({ rate }) => rate)}
      label={`${passRate === null ? 'Mean' : 'Pass rate'} of the last ${plural(recent.length, 'visit')}, from ${text(0)} to ${text(-1)}`}
      color="var(--data-1)"
      height={22}
      slots={slots}
      top={passRate === null ? 0 : 1}
    />
  )
}
