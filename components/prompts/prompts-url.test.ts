import { expect, test } from 'vitest'
import {
  orderingOf,
  promptFilter,
  promptHref,
  promptsHref,
  promptsUrl,
  visitIds,
} from './prompts-url.ts'

test('the URL contains filters, order and view, and omits defaults', () => {
  expect(promptsHref('a/b')).toBe('/runs/a%2Fb/prompts')
  const href = promptsHref('a', {
    ...{ split: 'val', view: 'heat', class: 'regressed', source: 's', search: 'x y', sort: 'rise' },
    zoom: { from: 2, to: 9 },
  })
  expect(href).toBe(
    '/runs/a/prompts?split=val&view=heat&class=regressed&source=s&search=x+y&sort=rise&zoom=2-9',
  )
  const params = new URLSearchParams(href.split('?')[1])
  expect(promptsUrl.write(promptsUrl.parse(params)).toString()).toBe(params.toString())
})

test('unknown values in a URL are ignored', () => {
  const state = promptsUrl.parse(new URLSearchParams('class=good&view=no&sort=up&search=&zoom=x'))
  expect(promptsUrl.write(state).toString()).toBe('')
  expect(orderingOf(state.sort)).toEqual({ orderBy: 'change', descending: false })
})

test('the filters in the URL are those of the API', () => {
  const state = promptsUrl.parse(new URLSearchParams('split=val&source=s&search=x'))
  expect(promptFilter('a', state)).toEqual({ run: 'a', split: 'val', dataSource: 's', search: 'x' })
  const none = promptsUrl.parse(new URLSearchParams())
  expect(promptFilter('a', none)).toEqual({ run: 'a', split: 'train' })
})

test('a link to a prompt keeps the split of the list', () => {
  expect(promptHref('a b', 'train', '0f')).toBe('/runs/a%20b/prompts/0f')
  expect(promptHref('a', 'val', '0f')).toBe('/runs/a/prompts/0f?split=val')
})

test('two groups of a prompt in one batch are two visits', () => {
  expect(visitIds([{ batchId: 'b1' }, { batchId: 'b2' }, { batchId: 'b1' }])).toEqual([
    ...['b1', 'b2', 'b1.2'],
  ])
})
