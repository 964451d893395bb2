import { describe, expect, test } from 'vitest'
import {
  literalPattern,
  readSampleFilter,
  type SampleFilter,
  SampleFilter as Schema,
  writeSampleFilter,
} from './sample-filter.ts'

const read = (query: string) => readSampleFilter(new URLSearchParams(query))

describe('a filter as text', () => {
  const filters: SampleFilter[] = [
    {},
    { run: 'a b', batch: 'b12', step: 3, uid: 'q/1', dataSource: 'openai/gsm8k' },
    { step: 0, stepTo: 99, split: 'val', status: 'failed', reason: 'timeout', server: 'rm-1' },
    { scoreMin: -0.5, scoreMax: 1e-7, lengthMin: 0, lengthMax: 2_000, attemptsMin: 2 },
    { substituted: false, annotated: true, label: 'reward hack', text: '100%_\\ "x"\n<b>' },
    {
      extra: [
        { key: 'acc', is: 'number', min: 0.5, max: 1 },
        { key: 'acc', is: 'number', min: -1.25e-7 },
        { key: 'a:b%c', is: 'number', max: 3 },
        { key: 'ok', is: 'boolean', value: false },
        { key: 'pred', is: 'text', value: 'a:b..c' },
        { key: 'pred', is: 'text', value: '' },
        { key: 'x', is: 'number' },
        { key: 'note', is: 'present' },
      ],
    },
  ]
  test.each(filters)('%j is read back unchanged', (filter) => {
    const query = writeSampleFilter(filter).toString()
    expect(read(query)).toEqual({ filter, unread: [] })
    expect(Schema.parse(filter)).toEqual(filter)
  })

  test('invalid values are left out and returned; the others are used', () => {
    const { filter, unread } = read(
      'run=a&batch=12&step=-1&status=done&scoreMin=abc&attemptsMin=1.5&substituted=yes&extra=acc&extra=acc:number:1&extra=ok:boolean:true&sample=b1-2',
    )
    expect(filter).toEqual({ run: 'a', extra: [{ key: 'ok', is: 'boolean', value: true }] })
    expect(unread.map(({ name, value }) => `${name}=${value}`)).toEqual([
      'batch=12',
      'step=-1',
      'status=done',
      'scoreMin=abc',
      'attemptsMin=1.5',
      'substituted=yes',
      'extra=acc',
      'extra=acc:number:1',
    ])
    expect(unread.map(({ message }) => message)).toContain('must be a number')
  })
})

describe('the pattern of a text', () => {
  test('matches literally and ignores case', () => {
    expect('a.b (A.B) axb'.match(literalPattern('a.b'))).toEqual(['a.b', 'A.B'])
    expect('ÄRGER'.match(literalPattern('ärger'))).toEqual(['ÄRGER'])
    for (const odd of ['[x', 'a-b', 'a/b', '\\d', '{1}', '$^', '\u0000', '\ud800', '😀?'])
      expect(`<${odd}>`.match(literalPattern(odd))).toEqual([odd])
  })
})
