import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import { ChartTable } from './chart-frame.tsx'

test('a table with more rows than the page shows says how many there are', () => {
  const rows = [1, 2, 3].map((step) => [step, `v${step}`])
  const shown = (maxShown: number) =>
    renderToStaticMarkup(<ChartTable head={['Step', 'Value']} rows={rows} maxShown={maxShown} />)
  expect(shown(2)).toContain('<td class="num end">v2</td>')
  expect(shown(2)).not.toContain('v3')
  expect(shown(2)).toContain('The first 2 of 3 rows')
  expect(shown(3)).toContain('v3')
  expect(shown(3)).not.toContain('The first')
})
