import { expect, it } from 'vitest'
import { sampleOfRow } from './last-sample.ts'
import { RowTracker } from './row-tracker.ts'

function track(text: string, cuts: number[], quotes: boolean) {
  const bytes = Buffer.from(text)
  const tracker = new RowTracker(quotes)
  const out: Buffer[] = []
  for (const [i, from] of [0, ...cuts].entries()) {
    out.push(...tracker.push(Buffer.from(bytes.subarray(from, cuts[i] ?? bytes.length))))
  }
  return { tracker, whole: Buffer.concat(out).toString() }
}

it.each([
  ['lines', 'one\ntwo\nthree\nbegun', false, 'one\ntwo\nthree\n', 'three\n'],
  [
    'records',
    'a,"1\n""2"""\r\nb,"\n"\r\nc,"be\ngun\n',
    true,
    'a,"1\n""2"""\r\nb,"\n"\r\n',
    'b,"\n"\r\n',
  ],
])('%s are passed on whole, wherever the bytes are cut', (_, text, quotes, expected, last) => {
  const rows = quotes ? 2 : 3
  for (let a = 0; a <= text.length; a++) {
    for (let b = a; b <= text.length; b++) {
      const { tracker, whole } = track(text, [a, b], quotes)
      expect(whole, `cut at ${a} and ${b}`).toBe(expected)
      expect(tracker.rows).toBe(rows)
      expect(tracker.bytes).toBe(expected.length)
      expect(tracker.lastRow?.toString()).toBe(last)
    }
  }
})

it('the sample of a row is found in every format', () => {
  expect(sampleOfRow(Buffer.from('{"batchId":"b7","index":3}\n'), 'jsonl')).toBe('b7-3')
  expect(sampleOfRow(Buffer.from('{"input":"x","sample_id":"b7-3"}\n'), 'verl')).toBe('b7-3')
  expect(sampleOfRow(Buffer.from('"r,\n1",0,train,b7,3,q,d,p,r\r\n'), 'csv')).toBe('b7-3')
  expect(sampleOfRow(Buffer.from('run,step,split,batchId,index\r\n'), 'csv')).toBeNull()
  expect(() => sampleOfRow(Buffer.from('{"input":"x"}\n'), 'verl')).toThrow()
  expect(() => sampleOfRow(Buffer.from('a,b\r\n'), 'csv')).toThrow()
})
