import { describe, expect, test } from 'vitest'
import { isNarrowed, NO_FILTERS, sampleListInput, sampleView } from './sample-filters.ts'

const read = (query: string) => sampleView.parse(new URLSearchParams(query))

describe('the address of the Samples page', () => {
  test('what is written is read again', () => {
    const query =
      'run=a+b&batch=b12&step=3&uid=q%2F1&dataSource=openai%2Fgsm8k&status=failed&reason=timeout&server=rm-1&scoreMin=-0.5&scoreMax=1e-7&sort=worst&columns=score%2CrewardExtraInfo.acc&sample=b12-3'
    expect(sampleView.write(read(query)).toString()).toBe(query)
    expect(sampleView.write(read('')).toString()).toBe('')
  })

  test('what cannot be read is left out, so that an old link still opens', () => {
    expect(
      read('batch=12&step=-1&status=done&reason=bored&scoreMin=abc&sort=random&sample=../x'),
    ).toEqual(read(''))
  })

  test('only filters narrow; order, columns and the open sample do not', () => {
    expect(isNarrowed(read('sort=worst&sample=b1-2&columns=score'))).toBe(false)
    expect(isNarrowed(read('scoreMin=0'))).toBe(true)
    expect(isNarrowed({ ...read('run=a&scoreMax=3'), ...NO_FILTERS })).toBe(false)
  })

  test('the query gets the filters and nothing else', () => {
    expect(sampleListInput(read('batch=b1&scoreMax=0&sample=b1-2&columns=score'))).toEqual({
      batch: 'b1',
      scoreMax: 0,
      sort: 'newest',
      limit: 100,
    })
  })
})
