'use client'

import { lazy, Suspense } from 'react'
import { foldAt } from '../format/text.ts'
import { Otherwise } from '../ui/otherwise.tsx'
import { PlainText, RolloutText } from './raw-text.tsx'
import { useMarks } from './rollout-context.ts'
import { marksIn, type TextMark } from './text-marks.ts'
import { useTextView } from './use-text-view.ts'

/**
 * The renderer is loaded with the first text, because lists of samples show no texts. All its modules are loaded
 * together, so that a text is drawn once.
 */
const RenderedText = lazy(async () => {
  const [{ RenderedText }] = await Promise.all([
    import('./rendered-text.tsx'),
    import('./rendered-markdown.tsx'),
  ])
  return { default: RenderedText }
})

export interface TextViewProps {
  text: string
  maxChars: number
  /** Whether the text is a response, which may begin within its reasoning. */
  isResponse?: boolean
  marks?: readonly TextMark[]
}

export function TextView(props: TextViewProps) {
  const { isResponse: _, ...raw } = props
  return useTextView() === 'raw' ? (
    <RolloutText {...raw} />
  ) : (
    <Otherwise fallback={<RolloutText {...raw} />}>
      <Suspense fallback={<Beginning {...raw} />}>
        <RenderedText {...props} />
      </Suspense>
    </Otherwise>
  )
}

/** The text up to its fold, while the renderer is loaded. */
function Beginning({ text, maxChars, marks }: TextViewProps) {
  const end = foldAt(text, maxChars)
  return <PlainText text={text.slice(0, end)} marks={marksIn(useMarks(text, marks), 0, end)} />
}
