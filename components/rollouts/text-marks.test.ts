import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import { MarkedText } from './marked-text.tsx'
import {
  answerMark,
  evidenceMarks,
  markedRuns,
  marksIn,
  quotesOf,
  searchMarks,
} from './text-marks.ts'

const found = (text: string, extracted: string | null) => {
  const mark = answerMark(text, extracted)
  return mark && [mark.start, text.slice(mark.start, mark.end)]
}

test('the answer is the last whole occurrence', () => {
  expect(found('It is 42, so\n#### 42', '42')).toEqual([18, '42'])
  expect(found('So \\boxed{\\frac{1}{2}}.', '\\frac{1}{2}')).toEqual([10, '\\frac{1}{2}'])
  expect(found('The answer is (B).', 'B')).toEqual([15, 'B'])
  expect(found('x = -3', '-3')).toEqual([4, '-3'])
})

test('a part of a number or a word is not an occurrence', () => {
  for (const text of ['12', '2.5', '1,200', '0.2', '4/2', 'x = -2', 'a2', '2b']) {
    expect(found(text, '2'), text).toBeNull()
  }
  expect(found('#### 2 and 12', '2')).toEqual([5, '2'])
  expect(found('5-2=3, minus 2.', '2')).toEqual([13, '2'])
  expect(found('5-2', '2')).toEqual([2, '2'])
})

test('an answer that is not in the text has no mark', () => {
  expect(found('#### 1,234', '1234')).toBeNull()
  expect(found('anything', '')).toBeNull()
  expect(found('anything', null)).toBeNull()
  expect(found(`${'x'.repeat(199)}…`, `${'x'.repeat(199)}…`)).toBeNull()
  expect(found('1'.repeat(100_000), '1')).toBeNull()
})

test('quotes of the reward extra info are found verbatim or not at all', () => {
  const extra = {
    evidence: ['“as the grader wants”', 'not there at all'],
    judge_quote: 'So it is',
    acc: 1,
  }
  expect(quotesOf(extra)).toHaveLength(3)
  const text = 'So it is as the grader wants.'
  expect(evidenceMarks(text, extra).map(({ start, end }) => text.slice(start, end))).toEqual([
    'as the grader wants',
    'So it is',
  ])
})

test('search marks are bounded', () => {
  expect(searchMarks('aaaa', /a/g)).toHaveLength(4)
  expect(searchMarks('a'.repeat(1_000), /a/g)).toHaveLength(500)
  expect(searchMarks('abc', /x*/g)).toEqual([])
  expect(searchMarks('abc', null)).toEqual([])
})

test('marks are cut at a range, and the answer is drawn over other marks', () => {
  const marks = [
    { start: 2, end: 8, kind: 'search' as const },
    { start: 4, end: 6, kind: 'answer' as const },
  ]
  expect(marksIn(marks, 5, 7)).toEqual([
    { start: 0, end: 2, kind: 'search' },
    { start: 0, end: 1, kind: 'answer' },
  ])
  expect(marksIn([{ start: 0, end: 5, kind: 'search' }], 5, 10)).toEqual([])
  expect(markedRuns(10, marks).map(({ start, end, mark }) => [start, end, mark?.kind])).toEqual([
    [0, 2, undefined],
    [2, 4, 'search'],
    [4, 6, 'answer'],
    [6, 8, 'search'],
    [8, 10, undefined],
  ])
  expect(markedRuns(0, [])).toEqual([])
})

test('invisible characters are shown inside and outside of marks', () => {
  const marks = [{ start: 2, end: 5, kind: 'search' as const }]
  const html = renderToStaticMarkup(createElement(MarkedText, { text: 'a\u200Bb\u200Bc', marks }))
  expect(html.match(/class="rollout-char"/g)).toHaveLength(2)
})
