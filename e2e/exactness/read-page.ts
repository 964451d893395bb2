import type { Locator, Page } from '@playwright/test'

/** The cells of each row by column header. White space is removed, because numbers contain several kinds of it. */
export type Rows = Record<string, string>[]

export function bare(text: string | null | undefined): string {
  return (text ?? '').replace(/\s/g, '')
}

export async function rowsOf(table: Locator): Promise<Rows> {
  const lines = await table.evaluate((element) => {
    const cells = (row: Element) =>
      [...row.querySelectorAll('th, td, [role="columnheader"], [role="cell"]')].map(
        (cell) => cell.textContent ?? '',
      )
    return [...element.querySelectorAll('tr, [role="row"]')].map(cells)
  })
  const [heads = [], ...rows] = lines
  return rows.map((row) =>
    Object.fromEntries(heads.map((head, at) => [head.trim(), bare(row[at])] as const)),
  )
}

export function section(page: Page, title: string): Locator {
  return page.locator('section', { has: page.getByRole('heading', { name: title, exact: true }) })
}

export async function noteOf(page: Page, title: string): Promise<string> {
  return bare(await section(page, title).locator('header > .num').first().textContent())
}

/** Shows a chart as a table and reads its rows. The column "Marks" is left out, because it has no numbers. */
export async function chartRows(page: Page, title: string): Promise<Rows> {
  await page.getByRole('button', { name: `Show ${title} as a table`, exact: true }).click()
  const table = page.getByRole('region', { name: `${title}, table`, exact: true })
  const rows = await rowsOf(table.locator('table'))
  return rows.map(({ Marks, ...numbers }) => numbers)
}

export async function figuresOf(
  strip: Locator,
): Promise<Record<string, { value: string; detail: string }>> {
  const found = await strip.evaluate((element) =>
    [...element.querySelectorAll('dt')].map((label) => {
      const [value, detail] = label.nextElementSibling?.children ?? []
      return [label.textContent ?? '', value?.textContent ?? '', detail?.textContent ?? ''] as const
    }),
  )
  return Object.fromEntries(
    found.map(([label, value, detail]) => [label, { value: bare(value), detail: bare(detail) }]),
  )
}
