import { BALANCING_POLICIES, DEFAULT_POLICY, POLICY_NAMES } from '../server/contract/pools.ts'

/**
 * The tables of docs/ that are written from the definitions in the code. A page marks the place of a table by its name:
 * `<!-- table: policies -->` and `<!-- /table -->`.
 */
const TABLES: Readonly<Record<string, () => Table>> = {
  policies: () => ({
    head: ['policy', 'name', 'choice'],
    rows: POLICY_NAMES.map((name) => [
      name === DEFAULT_POLICY ? `${code(name)} (default)` : code(name),
      BALANCING_POLICIES[name].label,
      BALANCING_POLICIES[name].choice,
    ]),
  }),
}

interface Table {
  head: string[]
  rows: string[][]
}

const MARKED = /(<!-- table: ([\w-]+) -->\n)[\s\S]*?(<!-- \/table -->)/g

/** Returns a page of docs/ with its marked tables written. @throws Error for an unknown name of a table */
export function withTables(page: string): string {
  return page.replace(MARKED, (_, begin: string, name: string, end: string) => {
    const table = TABLES[name]?.()
    if (table === undefined) throw new Error(`there is no table "${name}" in scripts/doc-tables.ts`)
    return `${begin}${markdownTable(table.head, table.rows)}\n${end}`
  })
}

/** Returns a Markdown table. */
export function markdownTable(head: string[], rows: readonly string[][]): string {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
    .replaceAll('| --- |', '|---|')
    .replaceAll(' --- |', '---|')
}

const code = (text: string) => `\`${text}\``
