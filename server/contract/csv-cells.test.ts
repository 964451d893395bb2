import { expect, it } from 'vitest'
import { withoutFormulas } from './csv-cells.ts'

it.each([
  ['=1+1', "'=1+1"],
  ['+1', "'+1"],
  ['-5', "'-5"],
  ['@SUM(A1)', "'@SUM(A1)"],
  ['＝1', "'＝1"],
  ['\t=1', "\t'=1"],
  ['  =1', "  '=1"],
  ['\r\n=1', "\r\n'=1"],
  ["'=1", "'=1"],
  ['a;=HYPERLINK("http://evil.example")', 'a;\'=HYPERLINK("http://evil.example")'],
  ['a\t@x', "a\t'@x"],
  ['x = 1; y', 'x = 1; y'],
  ['first\n- second', 'first\n- second'],
  ['3 - 5', '3 - 5'],
  ['', ''],
])('the cell %j is shown as text', (cell, safe) => expect(withoutFormulas(cell)).toBe(safe))
