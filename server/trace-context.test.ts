import { describe, expect, it } from 'vitest'
import {
  activeTrace,
  SampleTrace,
  traceFields,
  traceHeaders,
  traceOfHeaders,
} from './trace-context.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

describe('traceOfHeaders', () => {
  it('reads traceparent and tracestate', () => {
    const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'a=1,b=2' }
    const trace = { traceId: TRACE, parentId: PARENT, isSampled: true, state: 'a=1,b=2' }
    expect(traceOfHeaders(headers)).toEqual(trace)
    expect(traceHeaders(trace, PARENT)).toEqual(headers)
  })

  it('reads the fields of version 0 from later versions', () => {
    expect(traceOfHeaders({ traceparent: `cc-${TRACE}-${PARENT}-02-more` })).toMatchObject({
      traceId: TRACE,
      isSampled: false,
      state: null,
    })
  })

  it.each([
    '',
    'x',
    `ff-${TRACE}-${PARENT}-01`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE}-${PARENT}-1`,
    `00-${TRACE}-${PARENT}-011`,
  ])('ignores the invalid traceparent %j', (traceparent) => {
    expect(traceOfHeaders({ traceparent })).toBeNull()
  })
})

describe('the calls of a sample', () => {
  const trace = { traceId: TRACE, parentId: PARENT, isSampled: true, state: null }
  const parentOf = (sample: SampleTrace, call: number) =>
    sample.headersOf(call).traceparent?.split('-')[2]

  it('have different spans, which are the same in every process', () => {
    const calls = [1, 2].map((call) => parentOf(new SampleTrace(trace, 7, 3), call))
    expect(new Set([...calls, parentOf(new SampleTrace(trace, 7, 4), 1)]).size).toBe(3)
    expect(parentOf(new SampleTrace(trace, 7, 3), 2)).toBe(calls[1])
  })

  it('pass on unchanged a context that is not sampled', () => {
    const sample = new SampleTrace({ ...trace, isSampled: false, state: 'a=1' }, 7, 3)
    expect(sample.headersOf(1)).toEqual({
      traceparent: `00-${TRACE}-${PARENT}-00`,
      tracestate: 'a=1',
    })
  })
})

it('log lines have the ids of the active trace', () => {
  expect(traceFields()).toEqual({})
  const trace = { traceId: TRACE, parentId: null, isSampled: true, state: null }
  expect(activeTrace.run({ trace, spanId: null }, traceFields)).toEqual({ trace_id: TRACE })
  expect(activeTrace.run({ trace, spanId: PARENT }, traceFields)).toEqual({
    trace_id: TRACE,
    span_id: PARENT,
  })
})
