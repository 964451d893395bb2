'use client'

import { CirclePause, Radio, Unplug } from 'lucide-react'
import { ageText } from '../format/time.ts'
import { useLive, useNow } from './live-provider.tsx'
import { liveWords } from './live-state.ts'

const TONES = {
  ok: 'text-ok',
  idle: 'text-ink-2',
  warn: 'text-warn',
  bad: 'text-bad',
}

/** Says at a glance whether the page is live, and freezes it. */
export function LiveToggle() {
  const { state, setFrozen, dataAt, failing } = useLive()
  const now = useNow()
  const words = liveWords(state, dataAt(), now, failing())
  const frozen = state.frozenAt !== null
  const Icon = frozen ? CirclePause : words.tone === 'bad' ? Unplug : Radio
  return (
    <button
      type="button"
      aria-pressed={!frozen}
      onClick={() => setFrozen(!frozen)}
      data-live={words.word.toLowerCase()}
      title={
        frozen
          ? 'The page stands still. Press to follow again.'
          : words.word === 'Live'
            ? 'The page follows the service. Press to freeze it.'
            : words.word === 'Connecting'
              ? 'Opening the live stream.'
              : words.word === 'Stale'
                ? 'The service could not read this again; the page asks every 5 s.'
                : 'The live stream is down; the page asks every 5 s instead.'
      }
      className={`flex h-7 items-center gap-1.5 rounded-md border px-2 text-xs ${TONES[words.tone]} hover:bg-hover quick transition-colors`}
    >
      <Icon
        size={14}
        aria-hidden
        className={words.word === 'Live' ? 'pulse' : undefined}
        strokeWidth={2}
      />
      <span className="font-medium">{words.word}</span>
      {words.ageMs !== null && (
        <span className="num text-ink-2">
          {frozen ? (
            ageText(words.ageMs)
          ) : (
            <>
              <span className="max-sm:hidden">data </span>
              {ageText(words.ageMs)} old
            </>
          )}
          {frozen && state.missed > 0 && <span className="text-ink-3"> · changed</span>}
        </span>
      )}
    </button>
  )
}
