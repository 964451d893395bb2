import { describe, expect, it } from 'vitest'
import { RunTableInput } from '../../server/contract/run-table.ts'
import { conditionText, parseCondition, runsUrl, runTableInput } from './runs-url.ts'

const parse = (query: string) => runsUrl.parse(new URLSearchParams(query))

describe('the URL of the Runs page', () => {
  it('contains the whole state, without defaults', () => {
    expect(runsUrl.write(parse('')).toString()).toBe('')
    const query =
      'named=grpo&tag=a&tag=b&status=idle&where=optimizer.lr+%3C+1e-5&sort=config.seed&order=asc&by=tag&col=batches&col=config.seed&run=x&run=y'
    expect(runsUrl.write(parse(query)).toString()).toBe(query)
    expect(() => RunTableInput.parse(runTableInput(parse(query)))).not.toThrow()
    expect(runTableInput(parse(query))).toEqual({
      ...{ search: 'grpo', tags: ['a', 'b'], status: 'idle', order: 'asc', byTag: true },
      ...{ config: [{ key: 'optimizer.lr', is: '<', value: '1e-5' }], sortConfig: 'seed' },
      columns: ['seed'],
    })
  })

  it('ignores unknown parameters', () => {
    const url = parse('status=odd&where=none&sort=config.&order=up&col=odd&col=created')
    expect(runsUrl.write(url).toString()).toBe('col=created')
  })
})

describe('a condition on the configuration', () => {
  it.each([
    ['lr=1e-6', { key: 'lr', is: '=', value: '1e-6' }],
    ['optimizer.lr <= 2', { key: 'optimizer.lr', is: '<=', value: '2' }],
    ['model ~ qwen=3', { key: 'model', is: '~', value: 'qwen=3' }],
    ['a b != ', { key: 'a b', is: '!=', value: '' }],
  ])('%s', (text, condition) => {
    expect(parseCondition(text)).toEqual(condition)
    expect(parseCondition(conditionText(parseCondition(text)!))).toEqual(condition)
  })

  it('may name a key by its suffix, unless several keys end with it', () => {
    const keyOf = (text: string, keys: string[]) => parseCondition(text, keys)?.key
    expect(keyOf('lr < 1e-5', ['optimizer.lr', 'kl'])).toBe('optimizer.lr')
    expect(keyOf('lr < 1e-5', ['actor.lr', 'critic.lr'])).toBe('lr')
    expect(keyOf('lr < 1e-5', ['lr', 'critic.lr'])).toBe('lr')
  })

  it('needs a key and an operator', () => {
    for (const text of ['', 'lr', '= 1', '<']) expect(parseCondition(text)).toBeNull()
  })
})
