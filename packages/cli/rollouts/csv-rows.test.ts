import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  groundTruthCell,
  promptCell,
  quoted,
  textCell,
} from '../../../server/contract/csv-cells.ts'
import { splitRecord } from './csv-rows.ts'
import { openRollouts, type Rollout } from './read-rollouts.ts'

let folder: string
let files = 0
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rewardops-csv-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function read(content: string | Buffer, name = `${files++}.csv`): Promise<Rollout[]> {
  const path = join(folder, name)
  await writeFile(path, content)
  const file = await openRollouts(path, { scores: 'keep' })
  const rollouts: Rollout[] = []
  for await (const rollout of file.rollouts()) rollouts.push(rollout)
  return rollouts
}

const HEADER = 'uid,dataSource,prompt,response,groundTruth,extraInfo,score'

describe('records of RFC 4180', () => {
  it('are split at commas, and quotes are removed', () => {
    expect(splitRecord('a,b,')).toEqual(['a', 'b', ''])
    expect(splitRecord('"a,b","c""d","e\r\nf"')).toEqual(['a,b', 'c"d', 'e\r\nf'])
    expect(splitRecord('')).toEqual([''])
    expect(() => splitRecord('"a"b,c')).toThrow('text follows a quoted field')
    expect(() => splitRecord('a"b,c')).toThrow('an unquoted field contains a quote')
  })
})

describe('values in cells', () => {
  const texts = [
    'plain',
    '',
    ' leading and trailing ',
    'a,b "quoted" \r\n second line\n',
    'NUL \u0000 and a lone \ud800 surrogate',
    'json:',
    'json:{"a":1}',
    '[{"role":"user","content":"a text that looks like messages"}]',
    '{"looks":"like JSON"}',
    '[1,2]',
    '[not JSON',
    '-1',
    '=1+1',
    '\u2028\u2029é😀',
  ]
  const values: unknown[] = [...texts, 72, -0.5, true, null, { a: [1, { b: null }] }, [], ['x'], {}]

  it('are read back unchanged', async () => {
    const rows = values.map((groundTruth, i) => {
      const response = texts[i % texts.length] as string
      const prompt = i % 3 === 0 ? [{ role: 'user', content: response, name: 'n' }] : response
      return { uid: `q-${i}`, dataSource: 'd', prompt, response, groundTruth }
    })
    const lines = rows.map((row) =>
      [
        row.uid,
        row.dataSource,
        promptCell(JSON.stringify(row.prompt)),
        textCell(JSON.stringify(row.response)),
        groundTruthCell(JSON.stringify(row.groundTruth)),
        '{"k":"v"}',
        '0.25',
      ]
        .map(quoted)
        .join(','),
    )
    const rollouts = await read(`\ufeff${HEADER}\r\n${lines.join('\r\n')}\r\n`)
    expect(rollouts.map(({ sample }) => sample)).toEqual(
      rows.map((row) => ({ ...row, extraInfo: { k: 'v' }, score: 0.25 })),
    )
  })

  it('a missing ground truth differs from an empty one', async () => {
    const rollouts = await read(`${HEADER}\nq,d,p,r,,,\nq,d,p,r,"json:""""",,\n`)
    expect(rollouts.map(({ sample }) => 'groundTruth' in sample && sample.groundTruth)).toEqual([
      false,
      '',
    ])
    expect(rollouts[0]?.sample).toEqual({ uid: 'q', dataSource: 'd', prompt: 'p', response: 'r' })
  })

  it('JSON cells without a prefix, Python’s field names and any order of columns are accepted', async () => {
    const csv = `step,split,response,data_source,uid,prompt,ground_truth,extra_info,response_length
7,val,r,d,q,"[{""role"":""user"",""content"":""hi""}]","{""target"":[""2""]}","{""a"":1}",12
`
    expect(await read(csv)).toEqual([
      {
        sample: {
          uid: 'q',
          dataSource: 'd',
          prompt: [{ role: 'user', content: 'hi' }],
          response: 'r',
          groundTruth: { target: ['2'] },
          extraInfo: { a: 1 },
          responseLength: 12,
        },
        run: null,
        step: 7,
        split: 'val',
      },
    ])
  })
})

describe('errors name the file, the line and the column', () => {
  it.each([
    ['q,d,p,r,,{a},', 'extraInfo: is not valid JSON'],
    ['q,d,p,r,json:{,,', 'groundTruth: is not valid JSON'],
    ['q,d,p,r,json:9007199254740993,,', 'groundTruth: is the integer 9007199254740993'],
    ['q,d,p,r,,,high', 'score: is not a number but "high"'],
    ['q,d,p', 'has 3 fields, and the header has 7'],
    [',d,p,r,,,', 'uid: must not be empty'],
    ['q,d,p,r"s,,,', 'an unquoted field contains a quote'],
  ])('%s', async (row, what) => {
    const name = `${files++}.csv`
    const csv = `${HEADER}\n"q","d","two\nlines","r",,,\n\n${row}\n`
    await expect(read(csv, name)).rejects.toThrow(`${join(folder, name)}:5: ${what}`)
  })

  it('an unknown header is refused', async () => {
    await expect(read('uid,dataSource,prompt\n')).rejects.toThrow('it has no column "response"')
    await expect(read('uid,dataSource,prompt,response,reward\n')).rejects.toThrow(
      'has an unknown column "reward"',
    )
    await expect(read('uid,dataSource,prompt,response,uid\n')).rejects.toThrow('"uid" twice')
  })

  it('an unclosed quote is reported at its line', async () => {
    await expect(read(`${HEADER}\nq,d,p,"r,,,\nq,d,p,r,,,\n`)).rejects.toThrow(
      ':2: a quoted field is not closed',
    )
  })
})

it('gzipped files are read under any name, and broken ones are reported', async () => {
  const csv = `${HEADER}\n${'q,d,p,r,,,\n'.repeat(20_000)}`
  const packed = gzipSync(csv)
  expect(await read(packed)).toHaveLength(20_000)
  await expect(read(packed.subarray(0, packed.length / 2))).rejects.toThrow('is a broken gzip file')
})

it('a scored row of an export keeps its score; failed, substituted and pending rows are scored again', async () => {
  const row = { uid: 'q', dataSource: 'd', prompt: 'p', response: 'r', batchId: 'b1', index: 4 }
  const result = { reason: null, rawScore: 1, substituted: false, rewardExtraInfo: { acc: 1 } }
  const lines = [
    { ...row, ...result, status: 'scored', score: 1 },
    { ...row, ...result, status: 'failed', score: null, reason: 'timeout' },
    { ...row, ...result, status: 'failed', score: 0, reason: 'timeout', substituted: true },
    { ...row, ...result, status: 'queued', score: null },
  ]
  const rollouts = await read(lines.map((line) => JSON.stringify(line)).join('\n'), 'export.jsonl')
  const sample = { uid: 'q', dataSource: 'd', prompt: 'p', response: 'r' }
  expect(rollouts.map((rollout) => rollout.sample)).toEqual([
    { ...sample, score: 1, rewardExtraInfo: { acc: 1 } },
    sample,
    sample,
    sample,
  ])
})
