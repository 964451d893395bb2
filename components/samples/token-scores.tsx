'use client'

import { useMemo, useState } from 'react'
import { formatCount, formatScore, formatSigned, plural } from '../format/numbers.ts'
import { MarkedText } from '../rollouts/marked-text.tsx'
import { listedTokens, type ShownTokens } from '../rollouts/part-rewards.ts'
import { markProps } from '../rollouts/text-marks.ts'
import { Button } from '../ui/button.tsx'
import { PanelPart } from '../ui/docked-panel.tsx'
import { Segmented } from '../ui/field.tsx'

const SHOWN_TOKENS = 20
const EXPLAINED =
  "The reward model's score of each token. In a composite reward, it is multiplied by the weight of the component."

export function TokenLegend({
  tokens: { parts, min, max },
  component,
  components,
  onChange,
}: {
  tokens: ShownTokens
  component: string | null
  components: readonly (string | null)[]
  onChange(component: string | null): void
}) {
  const problem = parts.find((part) => part.problem !== null)?.problem ?? null
  const peak = Math.max(max, -min)
  return (
    <div
      className="num mb-2 flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-ink-3"
      data-token-legend
    >
      <span title={EXPLAINED}>Token scores</span>
      {components.length > 1 && (
        <Segmented
          label="Component"
          value={component ?? ''}
          options={components.map((name) => ({ value: name ?? '', label: name ?? '' }))}
          onChange={(name) => onChange(name === '' ? null : name)}
        />
      )}
      {problem !== null ? (
        <span>Not shown in the text: {problem}</span>
      ) : peak === 0 ? (
        <span>All 0</span>
      ) : (
        <span className="flex items-center gap-1.5">
          {formatScore(min)}
          <Scale min={min} max={max} peak={peak} />
          {formatScore(max)}
        </span>
      )}
    </div>
  )
}

const STEPS = 12

function Scale({ min, max, peak }: { min: number; max: number; peak: number }) {
  const step = (max - min) / STEPS
  const scores = Array.from({ length: STEPS }, (_, i) => min + (i + 0.5) * step)
  return (
    <span className="flex h-3 w-28 overflow-hidden rounded-[2px]" aria-hidden>
      {scores.map((score) => (
        <mark
          key={score}
          className="flex-1"
          {...markProps({ kind: 'token', level: score / peak, title: formatScore(score) })}
        />
      ))}
    </span>
  )
}

export function TokenTable({
  tokens,
  response,
}: {
  tokens: ShownTokens
  response: Parameters<typeof listedTokens>[1]
}) {
  const [all, setAll] = useState(false)
  const listed = useMemo(() => listedTokens(tokens, response), [tokens, response])
  const omitted = tokens.parts.reduce((sum, part) => sum + part.omitted, 0)
  if (listed.length === 0) return null
  const shown = all ? listed : listed.slice(0, SHOWN_TOKENS)
  const isPlaced = tokens.parts.every(({ starts }) => starts !== null)
  const hasMessages = typeof response !== 'string' && isPlaced
  return (
    <PanelPart
      title="Token scores"
      note={
        <>
          {plural(listed.length, 'score')}
          {omitted > 0 && `, ${formatCount(omitted)} earlier ones not stored`}
        </>
      }
    >
      <table
        className="num w-full text-xs [&_td]:py-px [&_th]:pb-1 [&_th]:text-left [&_th]:font-normal [&_th]:text-ink-3"
        data-token-scores={listed.length}
      >
        <thead>
          <tr>
            {hasMessages && <th className="w-16">Message</th>}
            <th className="w-16" title={isPlaced ? START_TEXT : NUMBER_TEXT}>
              {isPlaced ? 'Start' : 'Token'}
            </th>
            {isPlaced && <th>Token</th>}
            <th className="text-right!">Score</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ message, start, text, score }, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: tokens of a response do not move
            <tr key={i}>
              {hasMessages && <td>{message}</td>}
              <td>{start ?? omitted + i}</td>
              {isPlaced && (
                <td className="font-mono whitespace-pre">
                  {text === '' ? (
                    <span className="font-sans text-ink-3">Part of a character</span>
                  ) : (
                    <MarkedText text={shownToken(text ?? '')} />
                  )}
                </td>
              )}
              <td className="text-right">{formatSigned(score)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < listed.length && (
        <Button small variant="quiet" onClick={() => setAll(true)}>
          Show all {formatCount(listed.length)} tokens
        </Button>
      )}
    </PanelPart>
  )
}

const START_TEXT = 'Start of the token in the text, in code points'
const NUMBER_TEXT = "The token's number in the scored text of prompt and response, from 0"

/** A token in quotes, because many begin with a space. */
function shownToken(text: string): string {
  return JSON.stringify(text)
}
