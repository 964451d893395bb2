import { expect, it } from 'vitest'
import { responseHeaders, soundHeaders } from './headers.ts'

it('gives repeated headers one by one, and leaves out what is of the connection', () => {
  expect(
    responseHeaders({
      'content-type': 'text/plain',
      'x-many': ['a', 'b'] as unknown as string,
      connection: 'x-hop, keep-alive',
      'x-hop': '1',
      'keep-alive': 'timeout=5',
      'set-cookie': ['a=b'],
      'x-request-id': 'theirs',
    }),
  ).toEqual(['content-type', 'text/plain', 'x-many', 'a', 'x-many', 'b'])
})

it('leaves out what Node would not write', () => {
  const headers = ['x-a', 'fine', 'x-b', 'line\nbreak', 'x c', 'blank', 'x-d', 'caf\xe9\t!']
  expect(soundHeaders(headers)).toEqual(['x-a', 'fine', 'x-d', 'caf\xe9\t!'])
})
