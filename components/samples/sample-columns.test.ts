import { describe, expect, test } from 'vitest'
import { chosenColumns, leastTablePx } from './sample-columns.tsx'
import { sampleView } from './sample-filters.ts'

const names = (query: string, keys: string[] = [], narrow = false) =>
  chosenColumns(sampleView.parse(new URLSearchParams(query)), keys, narrow).map(
    (column) => column.name,
  )

describe('sample columns', () => {
  test('omit values that a filter fixes', () => {
    expect(names('')).toContain('run')
    expect(names('batch=b1')).not.toContain('run')
    expect(names('run=a')).toContain('step')
    expect(names('step=3')).not.toContain('step')
    expect(names('step=3-4')).toContain('step')
  })

  test('are not cut in a window of 1,440 px', () => {
    const columns = chosenColumns(sampleView.parse(new URLSearchParams()), [])
    // A window of 1,440 px, minus 204 px for the navigation and up to 15 px for a scroll bar.
    expect(leastTablePx(columns.map(({ track }) => track))).toBeLessThanOrEqual(1_221)
  })

  test('begin with the texts and the extracted answer', () => {
    expect(names('batch=b1').slice(0, 4)).toEqual(['sample', 'prompt', 'response', 'extracted'])
  })

  test('include filtered reward extra info', () => {
    expect(names('extra=acc%3Apresent')).toContain('rewardExtraInfo.acc')
    expect(names('label=hack')).toContain('labels')
    expect(names('')).not.toContain('labels')
  })

  test('follow the selection, with the sample ID first; unknown names are ignored', () => {
    expect(names('columns=ended,nonsense,score,sample,rewardExtraInfo.acc', ['acc'])).toEqual([
      'sample',
      'ended',
      'score',
      'rewardExtraInfo.acc',
    ])
  })

  test('are only the essential ones on narrow screens, unless selected', () => {
    expect(names('', [], true)).toEqual(['sample', 'score', 'response', 'extracted', 'status'])
    expect(names('columns=ended', [], true)).toEqual(['sample', 'ended'])
  })
})
