import { describe, expect, test } from 'vitest'
import {
  changedState,
  isNarrowed,
  narrowed,
  sampleListInput,
  sampleView,
  stateOf,
} from './sample-filters.ts'

const read = (query: string) => sampleView.parse(new URLSearchParams(query))

describe('Samples URL', () => {
  test('round-trips the whole state', () => {
    const query =
      'run=a+b&batch=b12&step=3-9&uid=q%2F1&dataSource=openai%2Fgsm8k&status=failed&reason=timeout&groupSignal=no_signal&failedToolCall=true&server=rm-1&scoreMin=-0.5&scoreMax=1e-7&text=%25_&extra=acc%3Anumber%3A0.5..&extra=ok%3Aboolean%3Atrue&sort=worst&columns=score%7E120%2CrewardExtraInfo.a%252Cb%257E&sample=b12-3&view=7'
    expect(sampleView.write(read(query)).toString()).toBe(query)
    expect(sampleView.write(read('')).toString()).toBe('')
    expect(read(query).columns).toEqual([
      { name: 'score', px: 120 },
      { name: 'rewardExtraInfo.a,b~', px: null },
    ])
  })

  test('ignores and reports invalid parameters, so that old links still open', () => {
    const view = read(
      'batch=12&step=-1&status=done&reason=bored&scoreMin=abc&sort=random&sample=../x&view=x',
    )
    expect({ ...view, unread: [] }).toEqual(read(''))
    expect(view.unread.map(({ name }) => name)).toEqual([
      ...['batch', 'step', 'status', 'reason', 'scoreMin'],
    ])
  })

  test('counts as narrowed only with a filter', () => {
    expect(isNarrowed(read('sort=worst&sample=b1-2&columns=score&view=3'))).toBe(false)
    expect(isNarrowed(read('scoreMin=0'))).toBe(true)
    const { filter } = read('run=a&extra=x%3Apresent')
    expect(narrowed(filter, { run: undefined, extra: [] })).toEqual({})
    expect(narrowed(filter, { step: 0 })).toMatchObject({ run: 'a', step: 0 })
  })

  test('stores filters, order and columns in a saved view, not the open sample', () => {
    const query = 'run=a&sort=best&columns=score'
    expect(stateOf(read(`${query}&sample=b1-2&view=3`)).toString()).toBe(query)
  })

  test('keeps the parameters of a saved view that this version cannot read', () => {
    const saved =
      'run=a&scoreMin=abc&extra=x&extra=acc%3Apresent&sort=random&later=1&later=2&columns=score'
    expect(changedState(read('run=b&extra=acc%3Apresent'), saved).toString()).toBe(
      'run=b&extra=acc%3Apresent&scoreMin=abc&extra=x&sort=random&later=1&later=2',
    )
    expect(changedState(read('scoreMin=0.5&sort=worst'), saved).toString()).toBe(
      'scoreMin=0.5&sort=worst&extra=x&later=1&later=2',
    )
  })

  test('passes filters and order to the query, not columns', () => {
    expect(sampleListInput(read('batch=b1&scoreMax=0&sample=b1-2&columns=score'))).toEqual({
      batch: 'b1',
      scoreMax: 0,
      sort: 'newest',
      limit: 100,
    })
  })
})
