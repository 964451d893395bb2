import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type OpenOptions,
  openRollouts,
  type Rollout,
  type RolloutFile,
  RolloutFileError,
} from './read-rollouts.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rewardops-rollouts-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

let files = 0
async function write(content: string | Buffer): Promise<string> {
  const path = join(folder, `${files++}.jsonl`)
  await writeFile(path, content)
  return path
}

async function readAll(path: string, options?: OpenOptions): Promise<Rollout[]> {
  const opened = await openRollouts(path, options)
  return collect(opened)
}

async function collect(file: RolloutFile): Promise<Rollout[]> {
  const rollouts: Rollout[] = []
  for await (const rollout of file.rollouts()) rollouts.push(rollout)
  return rollouts
}

const sample = { uid: 'q-1', dataSource: 'openai/gsm8k', prompt: '1 + 1?', response: '#### 2' }
const dumpRow = { input: 'What is 1 + 1?', output: '#### 2', gts: '2', score: 1, step: 7 }

describe('Parquet', () => {
  const text = (...data: (string | null)[]) => ({ data, type: 'STRING' as const })
  const columns = {
    uid: text('q-1', 'q-1'),
    data_source: text('d', 'd'),
    response: text('\ufeffr 1', 'r 2'),
    ground_truth: text('72', null),
  }
  async function parquet(given: Record<string, Omit<ColumnSource, 'name'>>, name = 'x.parquet') {
    const columnData = Object.entries(given).map(([key, column]) => ({ name: key, ...column }))
    const path = join(folder, `${files++}-${name}`)
    await writeFile(path, Buffer.from(parquetWriteBuffer({ columnData })))
    return path
  }

  test('of other programs is read: nested values, 64-bit integers, times and missing values', async () => {
    const messages = [{ role: 'user', content: 'hi' }]
    const path = await parquet({
      ...columns,
      prompt: { data: [messages, messages], type: 'JSON' },
      step: { data: [7n, 7n], type: 'INT64' },
      score: { data: [0.5, Number.NaN], type: 'DOUBLE' },
      extra_info: { data: [{ at: 1, ids: [1, 2] }, null], type: 'JSON' },
      __index_level_0__: { data: [0n, 1n], type: 'INT64' },
    })
    const opened = await openRollouts(path, { scores: 'keep' })
    expect(opened.format).toBe('parquet')
    const of = { run: null, step: 7, split: null }
    const both = { uid: 'q-1', dataSource: 'd', prompt: messages }
    expect(await collect(opened)).toEqual([
      {
        sample: {
          ...{ ...both, response: '\ufeffr 1', groundTruth: '72', score: 0.5 },
          extraInfo: { at: 1, ids: [1, 2] },
        },
        ...of,
      },
      { sample: { ...both, response: 'r 2' }, ...of },
    ])
  })

  test('with the columns of a verl dump is read as a dump, with the step from its file name', async () => {
    const path = await parquet(
      {
        ...{ input: text('1 + 1?', '1 + 1?'), output: text('#### 2', '#### 3') },
        ...{ gts: text('2', '2'), acc: { data: [true, false], type: 'BOOLEAN' } },
        score: { data: [1, 0], type: 'DOUBLE' },
      },
      'dump.parquet',
    )
    const named = join(folder, '12.parquet')
    await rename(path, named)
    const [first] = await readAll(named, { scores: 'keep' })
    expect(first).toMatchObject({
      ...{ step: 12, sample: { dataSource: 'openai/gsm8k', score: 1, groundTruth: '2' } },
    })
    expect(first?.sample.rewardExtraInfo).toEqual({ acc: true })
  })

  test('that cannot be read is refused with the file, and where known the row and column', async () => {
    const path = await parquet({ ...columns, prompt: text('p', 'p') })
    const bytes = await readFile(path)
    for (const [content, message] of [
      [bytes.subarray(0, bytes.length - 9), 'is a Parquet file that cannot be read: '],
      [gzipSync(bytes), 'is a gzipped Parquet file; decompress it with gunzip'],
      [Buffer.concat([Buffer.from('PARE'), bytes]), 'is an encrypted Parquet file'],
    ] as const) {
      await expect(openRollouts(await write(content))).rejects.toThrow(message)
    }
    await expect(openRollouts(await parquet(columns))).rejects.toThrow(
      'is not a Parquet file of rollouts: it has no column "prompt"',
    )
    const binary = { data: [new Uint8Array([255]), new Uint8Array([254])], type: 'BYTE_ARRAY' }
    const odd = await parquet({ ...columns, prompt: binary as Omit<ColumnSource, 'name'> })
    await expect(readAll(odd)).rejects.toThrow(RolloutFileError)
    const number = { data: ['high', 'low'], type: 'STRING' as const }
    const high = await parquet({ ...columns, prompt: text('p', 'p'), score: number })
    await expect(readAll(high)).rejects.toThrow(`${high}:1: score: is not a number but "high"`)
  })

  test('is recognized by its content: other files named .parquet are read as what they are', async () => {
    const path = join(folder, 'lines.parquet')
    await writeFile(path, JSON.stringify(sample))
    const opened = await openRollouts(path)
    expect(opened.format).toBe('samples')
    expect(opened.notes).toEqual(['is not a Parquet file despite its name'])
  })
})

describe('JSON Lines of samples', () => {
  test('samples are unchanged, with run and step separate', async () => {
    const path = await write(
      `${JSON.stringify({ ...sample, groundTruth: '2', run: 'r', step: 3 })}\r\n\n${JSON.stringify(sample)}`,
    )
    expect((await openRollouts(path)).format).toBe('samples')
    expect(await readAll(path)).toEqual([
      { sample: { ...sample, groundTruth: '2' }, run: 'r', step: 3, split: null },
      { sample, run: null, step: null, split: null },
    ])
  })

  test('reward extra info is kept with its score', async () => {
    const row = { ...sample, score: 0.5, rewardExtraInfo: { acc: 1 }, status: 'scored' }
    const path = await write(
      [row, { ...row, substituted: true }, { ...row, rewardExtraInfo: {} }]
        .map((one) => JSON.stringify(one))
        .join('\n'),
    )
    const [kept, substitute, empty] = await readAll(path, { scores: 'keep' })
    expect(kept?.sample).toEqual({ ...sample, score: 0.5, rewardExtraInfo: { acc: 1 } })
    expect(substitute?.sample).toEqual(sample)
    expect(empty?.sample).toEqual({ ...sample, score: 0.5 })
    const [logged] = await readAll(path, { scores: 'log' })
    expect(logged?.sample).toEqual({ ...sample, extraInfo: { logged_score: 0.5 } })
  })

  test('line separators, NUL and lone surrogates inside a string survive', async () => {
    const response = 'a\u2028b\u2029c\u0000d\ud800e\rf'
    const escaped = JSON.stringify({ ...sample, response })
    const raw = escaped.replace('\\u2028', '\u2028').replace('\\u2029', '\u2029')
    const path = await write(`\ufeff${raw}\n`)
    expect((await readAll(path))[0]?.sample.response).toBe(response)
  })

  test('lines and characters may span several read chunks', async () => {
    const response = 'ä€😀'.repeat(60_000)
    const path = await write(`${JSON.stringify({ ...sample, response })}\n`.repeat(3))
    const rollouts = await readAll(path)
    expect(rollouts.map((r) => r.sample.response === response)).toEqual([true, true, true])
  })

  test('errors name the file, the line and the field', async () => {
    const cases: [string, string][] = [
      ['{"uid": "q-1", ', 'is not valid JSON'],
      ['[1, 2]', 'is a JSON array'],
      ['7', 'is not a JSON object'],
      [JSON.stringify({ ...sample, response: undefined }), 'response: is missing'],
      [JSON.stringify({ ...sample, prompt: [{ content: 'x' }] }), 'prompt'],
      [JSON.stringify({ ...sample, respnse: '' }), 'unknown field "respnse"'],
      [
        '{"uid":"q","dataSource":"d","prompt":"","response":"","groundTruth":9007199254740993}',
        '"groundTruth" is the integer 9007199254740993',
      ],
      [JSON.stringify({ ...sample, step: -1 }), 'step: '],
    ]
    for (const [line, what] of cases) {
      const path = await write(`${JSON.stringify(sample)}\n\n${line}\n`)
      await expect(readAll(path), line).rejects.toThrow(`${path}:3: ${what}`)
    }
    const path = await write(
      Buffer.concat([Buffer.from(`${JSON.stringify(sample)}\n`), Buffer.from([0x22, 0xff, 0x22])]),
    )
    await expect(readAll(path)).rejects.toThrow(`${path}:2: is not UTF-8 text`)
  })

  test('a long decimal is not read as an integer', async () => {
    const path = await write(
      '{"uid":"q","dataSource":"d","prompt":"","response":"","groundTruth":0.1234567890123456}',
    )
    expect((await readAll(path))[0]?.sample.groundTruth).toBe(0.1234567890123456)
  })
})

test('a missing, empty or unknown file is refused', async () => {
  await expect(openRollouts(join(folder, 'nowhere'))).rejects.toThrow('no such file')
  await expect(openRollouts(folder)).rejects.toThrow('cannot be read (EISDIR)')
  await expect(openRollouts(await write('\n \n'))).rejects.toThrow('the file is empty')
  await expect(openRollouts(await write('{"text": "x"}'))).rejects.toThrow(
    'none of the known formats; its fields are "text"',
  )
})

describe('verl’s rollout_data_dir dump', () => {
  test('rows of one prompt form a group; extra columns and a score that is not kept become extraInfo', async () => {
    const other = { ...dumpRow, input: 'What is 2 + 2?', gts: '4', acc: 0, score: 0 }
    const path = await write(
      [dumpRow, { ...dumpRow, output: 'two', request_id: 'r9' }, other]
        .map((row) => JSON.stringify(row))
        .join('\n'),
    )
    const opened = await openRollouts(path)
    expect(opened.format).toBe('verl-dump')
    expect(opened.notes.join()).toContain('openai/gsm8k')
    const [first, second, third] = await collect(opened)
    expect(first).toEqual({
      sample: {
        uid: expect.stringMatching(/^input-[0-9a-f]{12}$/),
        dataSource: 'openai/gsm8k',
        prompt: dumpRow.input,
        response: '#### 2',
        groundTruth: '2',
        extraInfo: { logged_score: 1 },
      },
      run: null,
      step: 7,
      split: null,
    })
    expect(second?.sample.uid).toBe(first?.sample.uid)
    expect(second?.sample.extraInfo).toEqual({ logged_score: 1, request_id: 'r9' })
    expect(third?.sample.uid).not.toBe(first?.sample.uid)
    expect(third?.sample.extraInfo).toEqual({ logged_score: 0, acc: 0 })
  })

  test('reward columns become reward extra info of a kept score', async () => {
    const columns = { acc: true, pred: '2', nested: { a: [1] }, request_id: 'r9' }
    const path = await write(
      `${JSON.stringify({ ...dumpRow, ...columns })}\n${JSON.stringify({ ...dumpRow, ...columns, score: null })}`,
    )
    const [kept, unscored] = await readAll(path, { scores: 'keep' })
    expect(kept?.sample).toMatchObject({
      score: 1,
      rewardExtraInfo: { acc: true, pred: '2', nested: { a: [1] } },
      extraInfo: { request_id: 'r9' },
    })
    // The reward columns belong to the old score, so they are not the reward extra info of a new score.
    expect(unscored?.sample).not.toHaveProperty('rewardExtraInfo')
    expect(unscored?.sample.extraInfo).toEqual(columns)
  })

  test('the columns uid and data_source are used if present', async () => {
    const path = await write(
      JSON.stringify({
        ...dumpRow,
        uid: 'abc_0_3',
        data_source: 'math_dapo',
        gts: { target: ['2'] },
      }),
    )
    const opened = await openRollouts(path)
    expect(opened.notes).toEqual([])
    const [row] = await collect(opened)
    expect(row?.sample).toMatchObject({
      uid: 'abc',
      dataSource: 'math_dapo',
      groundTruth: { target: ['2'] },
    })
  })

  test('Python’s NaN is read as null; the word inside a text is unchanged', async () => {
    const path = await write(
      `${JSON.stringify(dumpRow)}\n{"input":"a \\"NaN\\" ####","output":"NaN","gts":null,"score":NaN,"std":-Infinity,"step":7}`,
    )
    const [, row] = await readAll(path)
    expect(row?.sample).toMatchObject({
      prompt: 'a "NaN" ####',
      response: 'NaN',
      groundTruth: null,
      extraInfo: { logged_score: null, std: null },
    })
  })

  test('the data source is given or guessed from the majority of rows; else the dump is refused', async () => {
    const boxed = { ...dumpRow, output: '\\boxed{2}' }
    const path = await write([boxed, boxed, dumpRow].map((row) => JSON.stringify(row)).join('\n'))
    expect((await readAll(path))[0]?.sample.dataSource).toBe('lighteval/MATH')
    expect((await readAll(path, { dataSource: 'math_dapo' }))[0]?.sample.dataSource).toBe(
      'math_dapo',
    )
    const plain = await write(JSON.stringify({ ...dumpRow, output: 'two' }))
    await expect(openRollouts(plain)).rejects.toThrow('use --data-source')
  })
})

describe('OpenAI’s example_model_solutions.jsonl', () => {
  const problem = {
    question: 'How many?',
    ground_truth: '1000 + 80 = <<1000+80=1080>>1,080\nA: 1,080',
    small: { is_correct: false, solution: '80\nA: 80' },
    large: { is_correct: true, solution: '1,080 in all\nA: 1,080' },
  }

  test('a problem is a group with one sample per model', async () => {
    const path = await write(`${JSON.stringify(problem)}\n${JSON.stringify(problem)}`)
    const rollouts = await readAll(path)
    expect((await openRollouts(path)).format).toBe('openai-solutions')
    expect(rollouts.map((r) => r.sample.uid)).toEqual(['gsm8k-0', 'gsm8k-0', 'gsm8k-1', 'gsm8k-1'])
    expect(rollouts[1]?.sample).toEqual({
      uid: 'gsm8k-0',
      dataSource: 'openai/gsm8k',
      prompt: 'How many?',
      response: '1,080 in all\n#### 1,080',
      groundTruth: '1080',
      extraInfo: { model: 'large', is_correct: true, index: 0 },
    })
  })

  test('a line without an answer or with a broken solution is refused', async () => {
    const good = JSON.stringify(problem)
    const noAnswer = await write(`${good}\n${JSON.stringify({ ...problem, ground_truth: '1080' })}`)
    await expect(readAll(noAnswer)).rejects.toThrow(`:2: "ground_truth" has no line "A: <answer>"`)
    const broken = await write(`${good}\n${JSON.stringify({ ...problem, large: 'A: 3' })}`)
    await expect(readAll(broken)).rejects.toThrow(':2: "large" is not a solution')
  })

  const real = '../shared/data/gsm8k/example_model_solutions.jsonl'
  test.skipIf(!existsSync(real))('the real file: 1,319 groups of four', async () => {
    const rollouts = await readAll(real)
    expect(rollouts).toHaveLength(5276)
    expect(new Set(rollouts.map((r) => r.sample.uid)).size).toBe(1319)
    const correct = new Map<unknown, number>()
    for (const { sample } of rollouts) {
      const { model, is_correct } = sample.extraInfo as { model: string; is_correct: boolean }
      correct.set(model, (correct.get(model) ?? 0) + Number(is_correct))
    }
    expect([...correct.values()]).toEqual([286, 515, 458, 742])
  })
})
