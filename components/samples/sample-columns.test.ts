import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, test } from 'vitest'
import type { SampleRowDto } from '../../server/contract/pages.ts'
import { chosenColumns, columnChoices, leastTablePx } from './sample-columns.tsx'
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

  test('show a text whole on hover, and a dash for a missing one', () => {
    const cellOf = (name: string, row: Partial<SampleRowDto>) =>
      renderToStaticMarkup(
        columnChoices([])
          .find((column) => column.name === name)
          ?.cell(row as SampleRowDto),
      ).replace(/ class="[^"]*"/g, '')
    expect(cellOf('extracted', { extracted: '42' })).toBe('<span title="42">42</span>')
    for (const name of ['verdict', 'extracted'] as const) {
      expect(cellOf(name, { [name]: null })).toBe('<span>–</span>')
      expect(cellOf(name, { [name]: '' })).toBe('<span title=""></span>')
    }
  })

  test('are only the essential ones on narrow screens, unless selected', () => {
    expect(names('', [], true)).toEqual(['sample', 'score', 'response', 'extracted', 'status'])
    expect(names('columns=ended', [], true)).toEqual(['sample', 'ended'])
  })
})
