import pg from 'pg'
import { expect, it } from 'vitest'
import { plainArray, textArray } from './array-literal.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'

const database = testDatabaseForFile()

it('Postgres reads array literals as the original values', async () => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const numbers = [0, -1.5, 1e300, 5e-324, null, 2 ** 53 - 1, 0.1]
  const texts = ['', 'a', null, 'NULL', 'a"b', 'a\\b', '{x,y}', ' ', 'é漢😀', '\n\t', '"\\"']
  const { rows } = await client.query(
    'select $1::float8[] as n, $2::text[] as t, $3::boolean[] as b, $4::int[] as e',
    [plainArray(numbers), textArray(texts), plainArray([true, null, false]), plainArray([])],
  )
  expect(rows[0]).toEqual({ n: numbers, t: texts, b: [true, null, false], e: [] })
  await client.end()
})
