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
          ? 'Live updates are paused. Click to resume.'
          : words.word === 'Live'
            ? 'Live updates are on. Click to pause.'
            : words.word === 'Connecting'
              ? 'The live stream is being opened.'
              : words.word === 'Stale'
                ? 'This page could not be refreshed. It retries every 5 s.'
                : 'The live stream is down. The page polls every 5 s instead.'
      }
      className={`flex h-7 items-center gap-1.5 rounded-md border px-2 text-xs ${TONES[words.tone]} hover:bg-hover quick transition-colors`}
    >
      <Icon
        size={14}
        aria-hidden
        className={words.word === 'Live' ? 'pulse' : undefined}
        strokeWidth={2}
      />
      <span className="font-medium">
        {words.word === 'Connecting' ? (
          // Takes the width of "Live", so that adjacent buttons do not move when the stream opens.
          <>
            <span className="sr-only">Connecting</span>
            <span className="invisible" aria-hidden>
              Live
            </span>
          </>
        ) : (
          words.word
        )}
      </span>
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
          {frozen && state.missed > 0 && <span className="text-ink-3"> · updates pending</span>}
        </span>
      )}
    </button>
  )
}
