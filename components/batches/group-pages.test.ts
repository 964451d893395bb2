import { describe, expect, test } from 'vitest'
import { batchFilters, batchListInput } from './batch-filters.ts'
import { pagesOfRows, seqOfRow } from './group-pages.ts'

describe('group pages', () => {
  test('map rows to completion numbers in both orders', () => {
    expect([seqOfRow(0, 250, 'completion'), seqOfRow(249, 250, 'completion')]).toEqual([1, 250])
    expect([seqOfRow(0, 250, 'latest'), seqOfRow(249, 250, 'latest')]).toEqual([250, 1])
  })

  test('cover only visible rows', () => {
    expect(pagesOfRows(0, 30, 16_384, 'completion')).toEqual([0])
    expect(pagesOfRows(95, 130, 16_384, 'completion')).toEqual([0, 1])
    expect(pagesOfRows(0, 30, 16_384, 'latest')).toEqual([163])
    expect(pagesOfRows(80, 110, 16_384, 'latest')).toEqual([162, 163])
    expect(pagesOfRows(0, 30, 0, 'completion')).toEqual([])
    expect(pagesOfRows(0, 30, 3, 'latest')).toEqual([0])
  })
})

describe('Batches URL', () => {
  test('round-trips all filters', () => {
    const filters = batchFilters.parse(new URLSearchParams('run=a&status=running&split=val'))
    expect(batchFilters.write(filters).toString()).toBe('run=a&status=running&split=val')
    expect(batchListInput(filters)).toEqual({
      run: 'a',
      status: 'running',
      split: 'val',
      rescored: false,
      limit: 50,
    })
  })

  test('selects the open and the running batches as active', () => {
    const filters = batchFilters.parse(new URLSearchParams('status=active'))
    expect(batchFilters.write(filters).toString()).toBe('status=active')
    expect(batchListInput(filters)).toEqual({ ended: false, limit: 50 })
  })

  test('has a kind for rescored batches', () => {
    const filters = batchFilters.parse(new URLSearchParams('split=rescored'))
    expect(batchFilters.write(filters).toString()).toBe('split=rescored')
    expect(batchListInput(filters)).toEqual({ rescored: true, limit: 50 })
  })

  test('ignores unknown values', () => {
    const filters = batchFilters.parse(new URLSearchParams('status=done&split=test'))
    expect(batchListInput(filters)).toEqual({ limit: 50 })
  })
})
