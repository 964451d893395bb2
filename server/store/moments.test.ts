import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { deviationOf, meanOf } from './sql/moments.ts'

const database = testDatabaseForFile()
let db: pg.Pool

beforeAll(() => {
  db = new pg.Pool({ connectionString: database.url, max: 1 })
})
afterAll(() => db?.end())

interface Moments {
  mean: number | null
  std: number | null
}

async function firstRow<T>(select: string, values: readonly (number | null)[]): Promise<T> {
  const { rows } = await db.query(`select ${select} from unnest($1::float8[]) as t(v)`, [values])
  return rows[0] as T
}
const momentsOf = (values: readonly (number | null)[]) =>
  firstRow<Moments>(`${meanOf('v')} as mean, ${deviationOf('v')} as std`, values)

describe('mean and deviation', () => {
  it('of usual scores equal those of Postgres to the last bit', async () => {
    for (const scale of [1e-100, 1e-12, 1, 1e6, 1e100]) {
      // No two scores are equal, and both signs occur. A null is not counted.
      const scores = Array.from({ length: 999 }, (_, i) => Math.sin(i) * scale)
      const plain = await firstRow<Moments>('avg(v) as mean, stddev_samp(v) as std', scores)
      expect(await momentsOf([...scores, null])).toEqual(plain)
    }
    expect(await momentsOf([0.5, 0.5, 0.5])).toEqual({ mean: 0.5, std: 0 })
    // Postgres's own `stddev_samp` returns 1e-15 here.
    expect(await momentsOf(Array(48).fill(-2.7000000000000046))).toMatchObject({ std: 0 })
    expect(await momentsOf([0.25])).toEqual({ mean: 0.25, std: null })
    expect(await momentsOf([null])).toEqual({ mean: null, std: null })
  })

  it('of many large scores exist although the squares of their sums overflow', async () => {
    const scores = Array.from({ length: 100_000 }, (_, i) => (i % 2 === 0 ? 9e149 : 1e149))
    const plain = firstRow('stddev_samp(v) as std', scores)
    await expect(plain).rejects.toThrow('out of range: overflow')
    const { mean, std } = await momentsOf(scores)
    expect((mean as number) / 5e149).toBeCloseTo(1, 12)
    expect((std as number) / (4e149 * Math.sqrt(100_000 / 99_999))).toBeCloseTo(1, 12)
  })

  it('are null beyond 1e150; tiny scores cause no error', async () => {
    expect(await momentsOf([1, 1e150])).toEqual({ mean: null, std: null })
    expect(await momentsOf([5e-324, -5e-324, 1e-300])).toEqual({ mean: 0, std: 0 })
    expect(await momentsOf([5e-324, 1])).toEqual({ mean: 0.5, std: Math.SQRT1_2 })
  })
})
