import { expect, it } from 'vitest'
import { responseHeaders, soundHeaders } from './headers.ts'

it('keeps repeated headers apart and removes those of the connection', () => {
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

it('removes headers that Node would refuse to write', () => {
  const headers = ['x-a', 'fine', 'x-b', 'line\nbreak', 'x c', 'blank', 'x-d', 'caf\xe9\t!']
  expect(soundHeaders(headers)).toEqual(['x-a', 'fine', 'x-d', 'caf\xe9\t!'])
})
