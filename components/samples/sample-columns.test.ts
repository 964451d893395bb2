import { describe, expect, test } from 'vitest'
import { chosenColumns } from './sample-columns.tsx'
import { sampleView } from './sample-filters.ts'

const names = (query: string, keys: string[] = [], narrow = false) =>
  chosenColumns(sampleView.parse(new URLSearchParams(query)), keys, narrow).map(
    (column) => column.name,
  )

describe('columns of the Samples table', () => {
  test('what a filter fixes is not repeated in every row', () => {
    expect(names('')).toContain('run')
    expect(names('batch=b1')).not.toContain('run')
    expect(names('run=a')).toContain('step')
    expect(names('step=3')).not.toContain('step')
    expect(names('step=3-4')).toContain('step')
  })

  test('what is filtered by is shown', () => {
    expect(names('extra=acc%3Apresent')).toContain('rewardExtraInfo.acc')
    expect(names('label=hack')).toContain('labels')
    expect(names('')).not.toContain('labels')
  })

  test('chosen ones in their order, the sample first, unknown names left out', () => {
    expect(names('columns=ended,nonsense,score,sample,rewardExtraInfo.acc', ['acc'])).toEqual([
      'sample',
      'ended',
      'score',
      'rewardExtraInfo.acc',
    ])
  })

  test('little room leaves what tells samples apart, unless columns were chosen', () => {
    expect(names('', [], true)).toEqual([
      'sample',
      'score',
      'status',
      'group',
      'attempts',
      'server',
    ])
    expect(names('columns=ended', [], true)).toEqual(['sample', 'ended'])
  })
})
