import { describe, expect, test } from 'vitest'
import { firstLine, foldAt, sentence, shortenMiddle, textParts } from './text.ts'

describe('rollout texts', () => {
  test('names NUL, lone surrogates and control characters; keeps markup and emoji', () => {
    expect(textParts('a\u0000b\ud800c\udc00\u001b')).toEqual([
      { text: 'a' },
      { mark: 'NUL', title: 'character U+0000' },
      { text: 'b' },
      { mark: 'U+D800', title: 'lone surrogate U+D800' },
      { text: 'c' },
      { mark: 'U+DC00', title: 'lone surrogate U+DC00' },
      { mark: 'ESC', title: 'character U+001B' },
    ])
    expect(textParts('<b>72</b>\n\t👩‍🚀')).toEqual([{ text: '<b>72</b>\n\t👩‍🚀' }])
    expect(textParts('')).toEqual([])
  })

  test('shows direction marks, which can reorder the visible text', () => {
    expect(textParts('\u202e27')).toEqual([
      { mark: 'U+202E', title: 'character U+202E' },
      { text: '27' },
    ])
  })

  test('shortens identifiers in the middle', () => {
    expect(shortenMiddle('q-17')).toBe('q-17')
    expect(shortenMiddle('0123456789abcdef', 9)).toBe('0123…cdef')
  })

  test('folds near a line end, never inside a surrogate pair', () => {
    expect(foldAt('short', 100)).toBe(5)
    expect(foldAt(`${'x'.repeat(90)}\n${'y'.repeat(200)}`, 100)).toBe(90)
    expect(foldAt(`${'x'.repeat(99)}😀${'y'.repeat(200)}`, 100)).toBe(99)
  })
})

test('formats a message as a sentence, and keeps a leading URL', () => {
  expect(sentence('it answered 401')).toBe('It answered 401.')
  expect(sentence('http://h:1 cannot be reached')).toBe('http://h:1 cannot be reached.')
  expect(sentence('Why?')).toBe('Why?')
})

test('the first line of a prompt is its first line with text', () => {
  expect(firstLine('\n  Solve for x. \r\nx + 1 = 2')).toBe('Solve for x.')
  expect(firstLine(' ')).toBe('')
})
