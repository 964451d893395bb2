import { describe, expect, test } from 'vitest'
import { exportColumns } from './export-columns.ts'
import { RowCounter } from './export-download.ts'
import { MAX_SELECTED, noneSelected, toggled, toggledShown } from './selection.ts'

const rows = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id }))

describe('selection', () => {
  test('toggles single samples, and a range from the last one', () => {
    const one = toggled(noneSelected('k'), rows, 'b', false)
    expect([...one.ids]).toEqual(['b'])
    const range = toggled(one, rows, 'd', true)
    expect([...range.ids]).toEqual(['b', 'c', 'd'])
    expect([...toggled(range, rows, 'c', false).ids]).toEqual(['b', 'd'])
  })

  test('toggles all loaded samples; deselecting one of all matches keeps the other loaded ones', () => {
    const all = toggledShown(noneSelected('k'), rows)
    expect(all.ids.size).toBe(5)
    expect(toggledShown(all, rows).ids.size).toBe(0)
    const less = toggled({ ...all, all: true }, rows, 'a', false)
    expect([less.all, [...less.ids]]).toEqual([false, ['b', 'c', 'd', 'e']])
  })

  test('a selection of as many samples as possible can be cleared', () => {
    const many = Array.from({ length: MAX_SELECTED + 1 }, (_, i) => ({ id: `s${i}` }))
    const most = toggledShown(noneSelected('k'), many)
    expect(most.ids.size).toBe(MAX_SELECTED)
    expect(toggledShown(most, many).ids.size).toBe(0)
  })
})

test('an export has the table columns under export names, and always the sample', () => {
  const names = ['response', 'score', 'worker', 'rewardExtraInfo.a,b', 'labels']
  expect(exportColumns(names.map((name) => ({ name })))).toEqual([
    ...['batchId', 'index', 'response', 'score', 'substituted', 'rewardExtraInfo.a,b'],
    'annotations',
  ])
})

test('export rows are counted across chunks, ignoring line ends within quotes', () => {
  const csv = new RowCounter(true)
  for (const part of ['a,b\r\n1,"x', '\ny ""q"" \n"\r\n2,z\r\n'])
    csv.push(new TextEncoder().encode(part))
  expect(csv.rows).toBe(2)
  const lines = new RowCounter(false)
  lines.push(new TextEncoder().encode('{"a":"x\\"y"}\n{}\n'))
  expect(lines.rows).toBe(2)
})
