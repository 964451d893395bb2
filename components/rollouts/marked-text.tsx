'use client'

import { Fragment } from 'react'
import { textParts } from '../format/text.ts'
import { markedRuns, markProps, type TextMark } from './text-marks.ts'

const NO_MARKS: readonly TextMark[] = []

export function MarkedText({
  text,
  marks = NO_MARKS,
}: {
  text: string
  marks?: readonly TextMark[]
}) {
  if (marks.length === 0) return <Seen text={text} />
  return markedRuns(text.length, marks).map(({ start, end, mark }) =>
    mark === null ? (
      <Fragment key={start}>
        <Seen text={text.slice(start, end)} />
      </Fragment>
    ) : (
      <mark key={start} {...markProps(mark)}>
        <Seen text={text.slice(start, end)} />
      </mark>
    ),
  )
}

function Seen({ text }: { text: string }) {
  return textParts(text).map((part, i) =>
    'text' in part ? (
      part.text
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of a text do not move
      <span key={i} title={part.title} className="rollout-char">
        {part.mark}
      </span>
    ),
  )
}
