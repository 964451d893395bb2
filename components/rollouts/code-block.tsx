'use client'

import { Check, Copy } from 'lucide-react'
import { Suspense, use, useMemo } from 'react'
import { useCopy } from '../ui/copy-text.tsx'
import { Otherwise } from '../ui/otherwise.tsx'
import { MarkedText } from './marked-text.tsx'
import { marksIn, type TextMark } from './text-marks.ts'

type Highlighter = typeof import('./highlighter.ts')
let highlighter: Promise<Highlighter> | undefined

function loadHighlighter(): Promise<Highlighter> {
  highlighter ??= import('./highlighter.ts')
  return highlighter
}

/** Code longer than this is shown without colors, because highlighting it takes more than a frame. */
const MAX_COLORED_CHARS = 12_000

export function CodeBlock({
  text,
  language,
  marks,
}: {
  text: string
  language: string | null
  marks: readonly TextMark[]
}) {
  const { copied, copy } = useCopy()
  const plain = <MarkedText text={text} marks={marks} />
  return (
    <div className="rollout-code" data-language={language ?? ''}>
      <div className="rollout-code-head">
        <span>{language ?? 'text'}</span>
        <button type="button" onClick={() => copy(text)} aria-label="Copy code" title="Copy code">
          {copied ? <Check size={12} aria-hidden /> : <Copy size={12} aria-hidden />}
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be focusable (WCAG 2.1.1) */}
      <pre tabIndex={0}>
        <code>
          {language === null || text.length > MAX_COLORED_CHARS ? (
            plain
          ) : (
            <Otherwise fallback={plain}>
              <Suspense fallback={plain}>
                <Colored text={text} language={language} marks={marks} />
              </Suspense>
            </Otherwise>
          )}
        </code>
      </pre>
    </div>
  )
}

function Colored({
  text,
  language,
  marks,
}: {
  text: string
  language: string
  marks: readonly TextMark[]
}) {
  const { tokensOf } = use(loadHighlighter())
  const tokens = useMemo(() => tokensOf(text, language), [tokensOf, text, language])
  return tokens.map(({ start, end, className }) => (
    <span key={start} className={className ?? undefined}>
      <MarkedText text={text.slice(start, end)} marks={marksIn(marks, start, end)} />
    </span>
  ))
}
