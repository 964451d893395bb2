import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync, zstdDecompressSync } from 'node:zlib'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { EXIT } from '../../packages/cli/exit-codes.ts'
import { openRollouts } from '../../packages/cli/rollouts/read-rollouts.ts'
import { type CliRun, runCli, startCli } from '../../packages/cli/testing/run-cli.ts'
import { freePort } from '../../testkit/processes/port.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts, type Sample, sample, shuffled } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

/**
 * The CLI with a real service: exports return the imported rows unchanged in every format, also after the importer,
 * the exporter or the service was killed half-way.
 */

// Each test starts the CLI a few times. A start takes 0.3 s, and several times as long while other suites run.
vi.setConfig({ testTimeout: 240_000 })

const KEY = 'pT4wZ81mQx7RkV0s9LcB'
const functions = mkdtempSync(join(tmpdir(), 'rewardops-functions-'))
let folder: string
let service: Service

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-import-'))
  service = await Service.start({
    env: {
      PORT: String(await freePort('127.0.0.1')),
      REWARDOPS_WORKERS: '1',
      REWARDOPS_API_KEYS: KEY,
      REWARDOPS_FUNCTIONS_DIR: functions,
    },
    headers: { authorization: `Bearer ${KEY}` },
  })
})

afterAll(async () => {
  await service?.stop().finally(() => service.destroy())
  rmSync(folder, { recursive: true, force: true })
  rmSync(functions, { recursive: true, force: true })
})

const env = () => ({ REWARDOPS_URL: service.url, REWARDOPS_API_KEY: KEY })
const cli = (...args: string[]): Promise<CliRun> => runCli(args, env())

async function done<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const run = await cli(...args, '--json')
  expect(run, run.stderr).toMatchObject({ code: EXIT.ok })
  return JSON.parse(run.stdout) as T
}

it('run shows and changes the configuration and tags of a run', async () => {
  const unknown = await cli('run', 'configured')
  expect(unknown).toMatchObject({ code: EXIT.refused })
  const config = { optimizer: { lr: 1e-6 }, model: 'qwen3-8b' }
  const path = join(folder, 'config.json')
  writeFileSync(path, JSON.stringify(config))
  await done('run', 'configured', '--config', `@${path}`, '--tag', 'a', '--tag', 'b')
  expect(await done('run', 'configured', '--untag', 'a')).toEqual({
    ...{ run: 'configured', config, tags: ['b'] },
  })
  expect((await cli('run', 'configured')).stdout).toBe(
    'configured  tags: b\noptimizer.lr  0.000001\nmodel         qwen3-8b\n',
  )
})

const ZSTD = { ZSTD: (bytes: Uint8Array) => zstdDecompressSync(bytes) }

interface Row extends Sample {
  run: string
  step: number
  split?: 'train' | 'val'
}

let files = 0
const at = (name: string) => join(folder, `${files++}-${name}`)

function write(rows: readonly unknown[], path = at('rows.jsonl')): string {
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  return path
}

function oddRows(run: string): Row[] {
  const texts = ['', 'NUL \u0000', 'lone \ud800', '"quoted",\r\n', ' \u2028 é😀 ', 'json:1', '[1]']
  const truths: unknown[] = ['72', '', 72, null, undefined, { target: ['a', 'ä'] }, ['\u0000']]
  return Array.from({ length: 210 }, (_, i) => ({
    run,
    step: Math.floor(i / 70),
    split: i < 70 ? 'val' : 'train',
    ...sample({
      uid: `q-${Math.floor(i / 5)}`,
      prompt:
        i % 4 === 0
          ? [
              { role: 'user', content: texts[i % 7] as string, name: 'x' },
              { role: 'assistant', content: null, tool_calls: [{ id: 1 }] },
            ]
          : `${texts[(i + 1) % 7]} ${i}`,
      response: `${texts[(i + 2) % 7]}\n#### 72`,
      groundTruth: truths[i % 7],
      ...(i % 3 === 0
        ? { extraInfo: { i, nested: { odd: texts[i % 7] as string }, f: 0.1 + i } }
        : {}),
      ...(i % 2 === 0 ? { responseLength: i } : {}),
      score: i / 7,
      ...(i % 5 === 0 ? { rewardExtraInfo: { acc: i, odd: texts[i % 7] as string } } : {}),
    }),
  }))
}

function kept(row: Row | Record<string, unknown>): unknown {
  const { run, step, split, uid, dataSource, prompt, response, responseLength } = row
  const { groundTruth, extraInfo, score, rewardExtraInfo = {} } = row
  const lines = { run, step, split, uid, dataSource, prompt, response, responseLength }
  return JSON.parse(JSON.stringify({ ...lines, groundTruth, extraInfo, score, rewardExtraInfo }))
}

const linesOf = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

const batchesOf = async (run: string) => (await service.api.batches.list.query({ run })).items

const storedOf = async (run: string): Promise<number> =>
  (await batchesOf(run)).reduce((sum, batch) => sum + batch.samples, 0)

describe('rows are exported as they were imported', () => {
  it('in JSON Lines', async () => {
    const rows = oddRows('lines')
    const result = await done('import', write(rows))
    expect(result).toMatchObject({ rows: 210, before: 0, badRows: 0 })
    const out = at('out.jsonl')
    expect(await done('export', '--run', 'lines', '--out', out)).toMatchObject({ rows: 210 })
    const exported = linesOf(out)
    expect(exported.map(kept)).toEqual(rows.map(kept))
    expect(exported[75]).toMatchObject({
      status: 'scored',
      index: 5,
      batchId: (result.batches as { batchId: string }[])[1]?.batchId,
      rawScore: 75 / 7,
      attempts: 0,
    })
  })

  itInFullRun(
    'in CSV: a second export after an import of the first differs only in batch ids and times',
    async () => {
      const rows = oddRows('csv')
      await done('import', write(rows))
      const [first, second] = [at('out.csv'), at('again.csv')]
      await done('export', '--run', 'csv', '--format', 'csv', '--out', first)
      await done('import', first, '--run', 'csv-again')
      await done('export', '--run', 'csv-again', '--format', 'csv', '--out', second)
      const moments = /(,(\d{4}-[\dT:.-]+Z)?){3},\d+(,\d{4}-[\dT:.-]+Z){2}\r$/gm
      const same = (path: string) =>
        readFileSync(path, 'utf8')
          .replaceAll(/^csv(-again)?,(\d+),(train|val),b\d+,/gm, '$2,$3,')
          .replaceAll(moments, '')
      expect(same(second)).toBe(same(first))
      const out = at('out.jsonl')
      await done('export', '--run', 'csv-again', '--out', out)
      expect(linesOf(out).map(kept)).toEqual(rows.map((row) => kept({ ...row, run: 'csv-again' })))
    },
  )

  it('in Parquet, with typed columns, and again after an import of the export', async () => {
    const rows = oddRows('columnar')
    await done('import', write(rows))
    const out = at('out.parquet')
    const exported = await done('export', '--run', 'columnar', '--format', 'parquet', '--out', out)
    expect(exported).toMatchObject({ rows: 210, before: 0, files: [out] })
    const file = await asyncBufferFromFile(out)
    const [first] = await parquetReadObjects({ file, rowEnd: 1, compressors: ZSTD })
    expect(first).toMatchObject({
      ...{ run: 'columnar', step: 0, split: 'val', index: 0, dataSource: 'openai/gsm8k' },
      ...{ score: 0, substituted: false, attempts: 0, submittedAt: expect.any(Date) },
      // Other programs read chat messages with a JSON parser.
      ...{ prompt: JSON.stringify(rows[0]?.prompt), rewardExtraInfo: '{"acc":0,"odd":""}' },
    })
    await done('import', out, '--run', 'columnar-again')
    const again = at('again.jsonl')
    await done('export', '--run', 'columnar-again', '--out', again)
    expect(linesOf(again).map(kept)).toEqual(
      rows.map((row) => kept({ ...row, run: 'columnar-again' })),
    )
  })

  it('in verl’s dump, a folder with one file per step', async () => {
    const dump = at('dump')
    const row = (step: number, i: number) => ({
      input: `Question ${Math.floor(i / 4)}? ####`,
      output: `Answer \u0000 ${i}\n#### ${i}`,
      gts: i % 2 === 0 ? '72' : { target: ['72'] },
      score: i / 4,
      step,
      acc: i % 2 === 0,
      request_id: `r${step}-${i}`,
    })
    const steps = [1, 2, 10].map((step) => Array.from({ length: 12 }, (_, i) => row(step, i)))
    mkdirSync(dump)
    for (const rows of steps) write(rows, join(dump, `${rows[0]?.step}.jsonl`))
    const result = await done<{ batches: { batchId: string }[] }>('import', dump, '--run', 'dump')
    expect(result).toMatchObject({ rows: 36, batches: [{ step: 1 }, { step: 2 }, { step: 10 }] })
    const id = `${result.batches[0]?.batchId}-3`
    expect(await service.api.samples.get.query({ id })).toMatchObject({
      rewardExtraInfo: { acc: false },
      extraInfo: { request_id: 'r1-3' },
    })
    // verl's dump has no validation rows.
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run: 'dump', step: 3, split: 'val' as const },
      samples: [sample()],
    })
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    // By default, the dump leaves out rescores, because they have the same rollouts as their source batch.
    const rescore = await service.api.batches.rescore.mutate({
      ...{ batchId: result.batches[0]!.batchId, reward: { function: { name: 'gsm8k' } } },
    })
    await service.api.batches.wait.query({ batchId: rescore.batchId, waitMs: 60_000 })
    const out = at('dump-out')
    await done('export', '--run', 'dump', '--format', 'verl', '--out', out)
    expect(readdirSync(out).sort()).toEqual(['1.jsonl', '10.jsonl', '2.jsonl'])
    for (const rows of steps) {
      const back = linesOf(join(out, `${rows[0]?.step}.jsonl`))
      expect(back.map(({ uid, data_source, sample_id, ...columns }) => columns)).toEqual(rows)
      expect(new Set(back.map(({ uid }) => String(uid).replace(/_\d+_\d+$/, ''))).size).toBe(3)
    }
    const rescored = at('dump-rescored')
    await done(
      'export',
      '--run',
      'dump',
      '--rescored',
      'true',
      '--format',
      'verl',
      '--out',
      rescored,
    )
    expect(readdirSync(rescored)).toEqual(['1.jsonl'])
    expect(linesOf(join(rescored, '1.jsonl'))).toHaveLength(12)
    // The export of the rescore does not need the texts of the source batch, which retention removed.
    const source = Number(result.batches[0]!.batchId.slice(1))
    await service.sql('update batch set texts_removed_at = now() where id = $1', [source])
    const alone = await done('export', '--run', 'dump', '--rescored', 'true', '--out', at('alone'))
    expect(alone).toMatchObject({ rows: 12 })
  })

  it('in verl’s dump without the substituted scores of failed samples, which an import scores again', async () => {
    writeFileSync(join(functions, 'fails.ts'), 'export default () => { throw new Error("no") }')
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run: 'substituted', step: 1, samples: [sample()] },
      reward: {
        function: { path: 'fails.ts' },
        onFailure: { policy: 'constant' as const, value: 0 },
      },
    })
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    const { score, substituted } = await service.api.samples.get.query({ id: `${batchId}-0` })
    expect({ score, substituted }).toEqual({ score: 0, substituted: true })
    const out = at('substituted')
    await done('export', '--batch', batchId, '--format', 'verl', '--out', out)
    expect(linesOf(join(out, '1.jsonl'))).toMatchObject([{ score: null }])
    const { batches } = await done<{ batches: { batchId: string }[] }>(
      ...['import', out, '--run', 'substituted-again'],
    )
    const again = batches[0]?.batchId as string
    await service.api.batches.wait.query({ batchId: again, waitMs: 60_000 })
    expect(await service.api.samples.get.query({ id: `${again}-0` })).toMatchObject({
      ...{ score: 1, substituted: false },
    })
  })

  itInFullRun(
    'from gzipped JSON Lines with mixed steps: each step’s rows are in the order of the file',
    async () => {
      const rows = shuffled(oddRows('mixed'), 7)
      const path = at('mixed.jsonl.gz')
      writeFileSync(path, gzipSync(rows.map((row) => JSON.stringify(row)).join('\n')))
      await done('import', path)
      const out = at('out.jsonl')
      await done('export', '--run', 'mixed', '--out', out)
      const byStep = (list: unknown[]) =>
        [0, 1, 2].map((step) => list.filter((row) => (row as { step: number }).step === step))
      expect(byStep(linesOf(out).map(kept))).toEqual(byStep(rows.map(kept)))
    },
  )

  itInFullRun('for a selected step, range of steps, split or batch, also to stdout', async () => {
    const rows = oddRows('selected')
    await done('import', write(rows))
    const count = async (...args: string[]) => {
      const { code, stdout, stderr } = await cli('export', ...args)
      expect(code, stderr).toBe(EXIT.ok)
      return stdout.split('\n').filter(Boolean).length
    }
    expect(await count('--run', 'selected')).toBe(210)
    expect(await count('--run', 'selected', '--step', '1')).toBe(70)
    expect(await count('--run', 'selected', '--step', '1-2')).toBe(140)
    expect(await count('--run', 'selected', '--split', 'val')).toBe(70)
    const [batch] = await batchesOf('selected')
    expect(await count('--batch', batch?.batchId as string, '--format', 'csv')).toBeGreaterThan(70)
    for (const [args, message] of [
      [['--run', 'nowhere'], 'Run "nowhere" has no batches.'],
      [['--run', 'selected', '--step', '9'], 'Run "selected" has no batches of step 9.'],
      [['--batch', 'b999999'], 'There is no batch b999999.'],
    ] as const) {
      const run = await cli('export', ...args)
      expect(run.code).toBe(EXIT.refused)
      expect(run.stderr).toContain(message)
    }
  })
})

describe('scores', () => {
  it('in the file are kept, and missing ones are computed; --ignore-scores computes all', async () => {
    const rows = rollouts(8, 4).map((row, i) => ({
      ...row,
      run: 'scored',
      step: 1,
      ...(i < 4 ? { score: -3 } : {}),
    }))
    const path = write(rows)
    const { batches } = await done<{ batches: { batchId: string }[] }>('import', path, '--wait')
    const scores = async (batchId: string) =>
      (await service.api.batches.results.query({ batchId })).score
    expect(await scores(batches[0]?.batchId as string)).toEqual([-3, -3, -3, -3, 1, 0, 1, 0])
    const rescored = await done<{ batches: { batchId: string }[] }>(
      ...['import', path, '--wait', '--ignore-scores', '--run', 'again'],
      ...['--reward', '{"manager":"naive","onFailure":{"policy":"null"}}'],
    )
    expect(await scores(rescored.batches[0]?.batchId as string)).toEqual([1, 0, 1, 0, 1, 0, 1, 0])
    const out = at('out.jsonl')
    await done('export', '--run', 'again', '--out', out)
    expect(linesOf(out)[0]).toMatchObject({ score: 1, extraInfo: { logged_score: -3 } })
  })

  it('may have reward extra info, which is returned with them and refused without them', async () => {
    const given = {
      ...sample({ uid: 'q' }),
      score: 0.5,
      rewardExtraInfo: { acc: 1, odd: '\u0000' },
    }
    const open = { run: 'extra', step: 1, open: true }
    const { batchId } = await service.api.batches.submit.mutate({ ...open, samples: [given] })
    const single = await service.api.samples.score.mutate({ run: 'extra', step: 2, sample: given })
    expect(single).toMatchObject({ score: 0.5, rewardExtraInfo: given.rewardExtraInfo })
    for (const id of [`${batchId}-0`, single.id]) {
      expect(await service.api.samples.get.query({ id })).toMatchObject({
        ...{ score: 0.5, rewardExtraInfo: given.rewardExtraInfo },
      })
    }
    const { score: _, ...unscored } = given
    const refused = service.api.batches.submit.mutate({
      run: 'extra',
      step: 3,
      samples: [unscored],
    })
    await expect(refused).rejects.toThrow(/samples\[0\]\.rewardExtraInfo: .*score/)
  })

  it('need a rule: other data sources are refused, and the number of stored rows is reported', async () => {
    const rows = rollouts(4).map((row) => ({ ...row, run: 'ruleless', step: 1 }))
    const path = write([...rows.slice(0, 3), { ...rows[3], dataSource: 'no/rule' }])
    const { code, stderr } = await cli('import', path)
    expect(code).toBe(EXIT.refused)
    expect(stderr).toMatch(/The service refused: .*no\/rule.* Nothing was stored\./)
    expect(await batchesOf('ruleless')).toEqual([])
  })
})

describe('bad rows', () => {
  const bad = () => {
    const rows = rollouts(6).map((row) => JSON.stringify({ ...row, run: 'bad', step: 1 }))
    const path = at('bad.jsonl')
    writeFileSync(
      path,
      [...rows.slice(0, 3), '{"uid": 7}', '', 'oops', ...rows.slice(3)].join('\n'),
    )
    return path
  }

  it('are each reported, and nothing is sent', async () => {
    const path = bad()
    const { code, stderr } = await cli('import', path)
    expect(code).toBe(EXIT.badInput)
    expect(stderr).toContain(`${path}:4: uid: `)
    expect(stderr).toContain(`${path}:6: is not valid JSON`)
    expect(stderr).toContain('Bad rows: 2 of 8. Nothing was sent')
    expect(await batchesOf('bad')).toEqual([])
  })

  it('are left out and counted with --skip-bad', async () => {
    expect(await done('import', bad(), '--skip-bad')).toMatchObject({ rows: 6, badRows: 2 })
    expect(await batchesOf('bad')).toMatchObject([{ samples: 6 }])
  })

  itInFullRun('include rows without a run or a step', async () => {
    const path = write(rollouts(2))
    expect((await cli('import', path)).stderr).toContain('names no run: give --run NAME')
    expect((await cli('import', path, '--run', 'r')).stderr).toContain('names no step: give --step')
  })
})

describe('repeated and interrupted commands', () => {
  const many = (run: string, count = 24_000): Row[] =>
    Array.from({ length: count }, (_, i) => ({
      run,
      step: i < count / 4 ? 0 : 1,
      ...sample({ uid: `q-${i >> 3}`, prompt: 'p', response: `r ${i}`, score: i % 2 }),
    }))

  it('import the same files with the same options once; another key starts a new import', async () => {
    const path = write(oddRows('twice'))
    const first = await done<{ batches: unknown[] }>('import', path)
    const copy = at('copy.jsonl')
    writeFileSync(copy, readFileSync(path))
    expect(await done('import', copy)).toMatchObject({ before: 210, batches: first.batches })
    expect(await batchesOf('twice')).toHaveLength(3)
    await done('import', path, '--key', 'another')
    expect(await batchesOf('twice')).toHaveLength(6)
  })

  itInFullRun(
    'complete an import that is killed twice, without missing or duplicate rows',
    async () => {
      const rows = many('killed')
      const path = write(rows)
      let stored = 0
      for (let kill = 0; kill < 2; kill++) {
        const importer = startCli(['import', path], env())
        const before = stored
        stored = await waitFor('more stored rows', async () => {
          const samples = await storedOf('killed')
          return samples > before && samples
        })
        importer.child.kill('SIGKILL')
        expect(await importer.ended).toMatchObject({ signal: 'SIGKILL' })
        expect(await storedOf('killed')).toBeLessThan(rows.length)
      }
      const result = await done<{ before: number; rows: number }>('import', path)
      expect(result.before).toBeGreaterThanOrEqual(stored)
      expect(await batchesOf('killed')).toMatchObject([
        { step: 1, samples: 18_000, scored: 18_000, groups: 2_250 },
        { step: 0, samples: 6_000, scored: 6_000, groups: 750 },
      ])
      const out = at('out.jsonl')
      await done('export', '--run', 'killed', '--out', out)
      const exported = linesOf(out)
      expect(exported.map(({ response }) => response)).toEqual(rows.map(({ response }) => response))
      expect(exported.map(kept)).toEqual(rows.map((row) => kept({ ...row, split: 'train' })))
    },
  )

  itInFullRun('report on Ctrl-C the stored rows and how to continue', async () => {
    const path = write(many('interrupted'))
    const importer = startCli(['import', path], env())
    await waitFor('some of it', async () => (await batchesOf('interrupted')).length > 0)
    importer.child.kill('SIGINT')
    const { code, stderr } = await importer.ended
    expect(code).toBe(EXIT.interrupted)
    expect(stderr).toMatch(
      /Stored so far: \d+ of 24000 rows .* Run the same command again to continue\./,
    )
    expect(await done('import', path)).toMatchObject({ rows: 24_000 })
    expect(await storedOf('interrupted')).toBe(24_000)
  })

  itInFullRun('continue a killed export after the last whole row with --resume', async () => {
    for (const format of ['jsonl', 'csv', 'verl'] as const) {
      const name = format === 'verl' ? 'dump' : `out.${format}`
      const [whole, cut] = [at(name), at(name)]
      const out = format === 'verl' ? '/1.jsonl' : ''
      const select = ['--run', 'killed', ...(format === 'verl' ? ['--step', '1'] : [])]
      const how = [...select, '--format', format, '--out']
      await done('export', ...how, whole)
      const bytes = readFileSync(whole + out)
      if (format === 'verl') mkdirSync(cut)
      writeFileSync(`${cut}${out}.part`, bytes)
      truncateSync(`${cut}${out}.part`, Math.floor(bytes.length * 0.4))
      const refused = await cli('export', ...how, cut)
      expect(refused.code).toBe(EXIT.badInput)
      expect(refused.stderr).toContain('--resume continues it')
      const result = await done<{ before: number; rows: number }>('export', ...how, cut, '--resume')
      expect(result.before).toBeGreaterThan(1_000)
      expect(result.rows).toBe(format === 'verl' ? 18_000 : 24_000)
      expect(readFileSync(cut + out).equals(bytes), format).toBe(true)
      expect((await cli('export', ...how, cut)).stderr).toContain('already exists; --force')
    }
  })

  itInFullRun(
    'continue an import by themselves after the service is killed and restarted',
    async () => {
      const rows = many('outage')
      const path = write(rows)
      const importer = startCli(['import', path, '--json'], env())
      await waitFor('some of it', async () => (await batchesOf('outage')).length > 0)
      await service.kill9('server')
      await service.restart()
      expect(await importer.ended).toMatchObject({ code: EXIT.ok })
      const out = at('out.jsonl')
      await done('export', '--run', 'outage', '--out', out)
      expect(linesOf(out).map(({ response }) => response)).toEqual(
        rows.map(({ response }) => response),
      )
    },
  )
})

describe('the commands submit, wait, results, rescore and servers', () => {
  const file = () => write(rollouts(16).map((row) => ({ ...row, run: 'submitted', step: 3 })))

  it('submit a file, wait for its end, and print its results', async () => {
    const { code, stdout } = await cli('submit', file(), '--wait')
    expect(code).toBe(EXIT.ok)
    const batchId = /^(b\d+) {2}16 samples in 2 groups/.exec(stdout)?.[1] as string
    expect(stdout).toContain('completed, 16 samples in 2 groups, 16 scored, 0 failed')
    expect(stdout).toContain('mean 0.5')
    expect(await done('wait', batchId)).toMatchObject({ batchId, status: 'completed', mean: 0.5 })
    const table = await cli('results', batchId, '--limit', '2')
    expect(table.stdout.split('\n').slice(0, 3)).toEqual([
      expect.stringMatching(/^INDEX +UID +STATUS +SCORE +ADVANTAGE +REASON$/),
      expect.stringMatching(/^ +0 +q-0 +scored +1 /),
      expect.stringMatching(/^ +1 +q-0 +scored +0 /),
    ])
    const part = await cli('results', batchId, '--offset', '5', '--limit', '8')
    expect(part.stdout.match(/^ +\d+/gm)?.map(Number)).toEqual([5, 6, 7, 8, 9, 10, 11, 12])
    expect(part.stderr).toContain('There may be more samples')
    const { stdout: lines } = await cli('results', batchId, '--json')
    const results = lines
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(results.map(({ index, score }) => [index, score])).toEqual(
      Array.from({ length: 16 }, (_, i) => [i, i % 2 === 0 ? 1 : 0]),
    )
  })

  it('submit the split that the rows name, and refuse a file of both splits', async () => {
    const of = (split?: string) =>
      rollouts(2).map((row) => ({ ...row, run: 'splits', step: 1, ...(split ? { split } : {}) }))
    const splitOf = async (...args: string[]) => {
      const { batchId } = await done<{ batchId: string }>('submit', ...args)
      return (await service.api.batches.get.query({ batchId })).split
    }
    expect(await splitOf(write(of('val')))).toBe('val')
    expect(await splitOf(write(of()))).toBe('train')
    const mixed = write([...of(), ...of('val')])
    const refused = await cli('submit', mixed)
    expect(refused.code).toBe(EXIT.badInput)
    expect(refused.stderr).toContain('more than one split (train, val): use import')
    expect(await splitOf(mixed, '--split', 'train')).toBe('train')
  })

  it('submit a body from stdin; the same key returns the same batch', async () => {
    const body = JSON.stringify({ run: 'stdin', step: 1, samples: rollouts(2) })
    const args = ['submit', '-', '--key', 'once', '--json']
    const [first, again] = [await runCli(args, env(), body), await runCli(args, env(), body)]
    const { batchId } = JSON.parse(first.stdout) as { batchId: string }
    expect(JSON.parse(again.stdout)).toMatchObject({ batchId, duplicate: true, accepted: 2 })
  })

  it('rescore a batch’s rollouts with another reward', async () => {
    const { batchId } = await done<{ batchId: string }>(
      'submit',
      file(),
      '--key',
      'first',
      '--wait',
    )
    const reward = '{"function":{"name":"gsm8k"},"kwargs":{"format_score":0.25}}'
    const again = await done('rescore', batchId, '--reward', reward, '--wait', '--fail-on-failed')
    expect(again).toMatchObject({ run: 'submitted', step: 3, samples: 16, mean: 0.625 })
    expect(again.batchId).not.toBe(batchId)
  })

  itInFullRun(
    'exit with different codes for a timeout, failed samples, a cancelled and an unknown batch',
    async () => {
      const open = await service.api.batches.submit.mutate({
        run: 'codes',
        step: 1,
        samples: rollouts(1),
        open: true,
      })
      const late = await cli('wait', open.batchId, '--timeout', '0')
      expect(late.code, late.stderr).toBe(EXIT.notYet)
      await service.api.batches.cancel.mutate({ batchId: open.batchId })
      expect((await cli('wait', open.batchId)).code).toBe(EXIT.batchFailed)
      writeFileSync(join(functions, 'throws.ts'), 'export default () => { throw new Error("no") }')
      const throwing = ['submit', file(), '--wait', '--reward', '{"function":{"path":"throws.ts"}}']
      expect((await cli(...throwing)).code).toBe(EXIT.ok)
      expect((await cli(...throwing, '--fail-on-failed')).code).toBe(EXIT.batchFailed)
      const unknown = await cli('wait', 'b999999')
      expect(unknown.code).toBe(EXIT.refused)
      expect(unknown.stderr).toContain('There is no batch b999999.')
    },
  )

  it('refuse an unreachable server, or add it with --keep-unreachable, and list and remove it', async () => {
    expect(await done<unknown[]>('servers')).toEqual([])
    const refused = await cli('servers', 'add', 'rm', 'http://127.0.0.1:9', '--model', 'm')
    expect(refused.code).toBe(EXIT.refused)
    const add = ['servers', 'add', 'rm', 'http://127.0.0.1:9', '--model', 'm', '--engine', 'vllm']
    expect(await done(...add, '--keep-unreachable')).toMatchObject({ name: 'rm', model: 'm' })
    expect((await cli('servers')).stdout).toMatch(/^NAME +STATE.*\nrm +/)
    expect((await cli('servers', 'remove', 'rm')).stdout).toBe('rm: removed\n')
  })
})

describe('GET /api/export/samples', () => {
  it('refuses a wrong key, method, query or path', async () => {
    const path = '/api/export/samples?run=lines'
    expectRefusal(await service.raw(path, { headers: { authorization: 'Bearer wrong-key' } }), {
      status: 401,
      reason: 'unauthorized',
      message: 'API key is required',
    })
    expectRefusal(await service.raw(path, { method: 'POST' }), {
      status: 405,
      reason: 'method_not_allowed',
      message: 'only GET',
    })
    for (const [query, message] of [
      ['', 'either batch or run must be given'],
      ['?run=lines&format=xml', 'format'],
      ['?run=lines&after=b1', 'after: must be a sample id'],
      ['?run=lines&after=b1-1&format=parquet', 'a Parquet export cannot be resumed'],
      ['?run=lines&step=a', 'step: must be a step'],
      ['?run=lines&colour=red', 'unknown field "colour"'],
    ] as const) {
      expectRefusal(await service.raw(`/api/export/samples${query}`), {
        status: 400,
        reason: 'invalid_input',
        message,
      })
    }
    expectRefusal(await service.raw('/api/export/servers'), {
      status: 404,
      reason: 'not_found',
      message: 'There is nothing at /api/export/servers',
    })
  })

  it('returns null, not empty text, for texts that were removed', async () => {
    const dropped = await done<{ batches: { batchId: string }[] }>(
      ...['import', write(oddRows('dropped')), '--step', '7', '--split', 'val'],
    )
    const { batchId } = dropped.batches[0] as { batchId: string }
    await service.sql('delete from sample_text where batch_id = $1', [Number(batchId.slice(1))])
    const { text } = await service.raw(`/api/export/samples?batch=${batchId}`)
    const lines = text.trim().split('\n')
    expect(lines).toHaveLength(210)
    expect(JSON.parse(lines[3] as string)).toMatchObject({
      prompt: null,
      response: null,
      score: 3 / 7,
    })
    const csv = await service.raw(`/api/export/samples?batch=${batchId}&format=csv`)
    expect(csv.text.split('\r\n')[4]).toContain('openai/gsm8k,,json:null,json:null,,')
    const out = at('dropped.parquet')
    await done('export', '--batch', batchId, '--kept', '--format', 'parquet', '--out', out)
    const file = await asyncBufferFromFile(out)
    const rows = await parquetReadObjects({ file, compressors: ZSTD })
    expect(rows[3]).toMatchObject({ prompt: null, response: null, score: 3 / 7 })
  })

  it('breaks off when retention removes samples that it has not read, unless removed data may be missing', async () => {
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run: 'removed-meanwhile', step: 1, samples: rollouts(400) },
    })
    const id = Number(batchId.slice(1))
    // The texts must exceed the buffers of an unread connection. An update is faster than a submit of such texts.
    await service.sql("update sample_text set prompt = repeat('x', 40000) where batch_id = $1", [
      id,
    ])
    const read = (more: string) =>
      request(`${service.url}/api/export/samples?batch=${batchId}${more}`, {
        headers: { authorization: `Bearer ${KEY}` },
      })
    const [strict, lenient] = [await read(''), await read('&texts=kept')]
    expect([strict.statusCode, lenient.statusCode]).toEqual([200, 200])
    await service.sql(
      'update batch set texts_removed_at = now(), samples_removed_at = now() where id = $1',
      [id],
    )
    await service.sql('delete from sample where batch_id = $1 and idx >= 200', [id])
    await expect(strict.body.text()).rejects.toThrow()
    expect((await lenient.body.text()).trim().split('\n').length).toBeLessThan(400)
  })

  it('returns CSV whose cells no spreadsheet evaluates', async () => {
    const { batchId } = await service.api.batches.submit.mutate({
      run: '=run',
      step: 1,
      samples: [sample({ uid: '@uid', response: '=HYPERLINK("http://evil.example","x")' })],
    })
    const path = `/api/export/samples?batch=${batchId}&columns=run,uid,response,score`
    const safe = await service.raw(`${path}&format=csv&safe=spreadsheet`)
    expect(safe.text.split('\r\n')[1]).toMatch(/^'=run,'@uid,"'=HYPERLINK\(""http/)
    const exact = await service.raw(`${path}&format=csv`)
    expect(exact.text.split('\r\n')[1]).toMatch(/^=run,@uid,"=HYPERLINK\(/)
    const json = await service.raw(`${path}&format=jsonl&safe=spreadsheet`)
    expectRefusal(json, { status: 400, reason: 'invalid_input', message: /safe: only CSV/ })
  })

  it('returns JSON Lines that the CLI can import', async () => {
    const { text, headers } = await service.raw('/api/export/samples?run=lines')
    expect(headers).toMatchObject({
      'content-type': 'application/x-ndjson',
      'x-rewardops-rows': '210',
    })
    const path = at('got.jsonl')
    writeFileSync(path, text)
    expect((await openRollouts(path)).format).toBe('samples')
  })
})
