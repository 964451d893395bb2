import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inFullRun, itInFullRun } from '../../testkit/service/full-run.ts'
import { holdHalfWay, sendInFull } from '../../testkit/service/full-sender.ts'
import { expectRefusal, nothingStored, type Refusal } from '../../testkit/service/refusals.ts'
import { padding, type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

/**
 * Bodies over 1 MiB go as bytes to the ingest thread. The server's event loop parses smaller bodies. In both cases,
 * invalid bodies get the same errors, and valid samples stay unchanged.
 */

const JSON_TYPE = { 'content-type': 'application/json' }
const MIB = 1 << 20

let service: Service

beforeAll(async () => {
  ;({ service } = await sharedService())
})

afterAll(() => leaveShared(service))

const endpoint = (path: string) => `${service.url}/api/trpc/${path}`

function submit(samples: Partial<Sample>[], fields: Partial<Submit> = {}): Submit {
  return { run: 'large-bodies', step: 1, samples: samples.map(sample), ...fields }
}

const ways = [
  { way: 'the event loop', count: 3, at: 1, pad: '' },
  { way: 'the ingest thread', count: 300, at: 150, pad: padding(5_000) },
] as const

describe.each(ways)('$way', ({ count, at, pad }) => {
  const body = (odd: Record<string, unknown>, fields: Partial<Submit> = {}): Submit =>
    submit(
      Array.from({ length: count }, (_, i) => ({
        uid: `q-${i}`,
        response: `${pad}\n#### 72`,
        ...(i === at ? odd : {}),
      })),
      fields,
    )

  it('accepts valid bodies', async () => {
    const answer = await service.api.batches.submit.mutate(body({}))
    expect(answer).toMatchObject({ accepted: count, groups: count, duplicate: false })
    const end = await service.api.batches.wait.query({ batchId: answer.batchId, waitMs: 60_000 })
    expect(end).toMatchObject({ status: 'completed', scored: count, mean: 1 })
  })

  const cases: [what: string, text: () => string, refusal: Refusal][] = [
    [
      'malformed JSON in the middle',
      () => JSON.stringify(body({ uid: 'HERE' })).replace('"HERE"', 'HERE'),
      { status: 400, reason: 'malformed_json', message: /not valid JSON/ },
    ],
    [
      'a body cut short',
      () => JSON.stringify(body({})).slice(0, -20),
      { status: 400, reason: 'malformed_json', message: /not valid JSON/ },
    ],
    [
      'text after the end of the body',
      () => `${JSON.stringify(body({}))}{}`,
      { status: 400, reason: 'malformed_json', message: /not valid JSON/ },
    ],
    [
      'a missing field',
      () => JSON.stringify(body({ response: undefined })),
      { status: 400, reason: 'invalid_input', message: `samples[${at}].response: is missing` },
    ],
    [
      'a missing prompt',
      () => JSON.stringify(body({ prompt: undefined })),
      { status: 400, reason: 'invalid_input', message: `samples[${at}].prompt: is missing` },
    ],
    [
      'a field of the wrong type',
      () => JSON.stringify(body({ responseLength: '211' })),
      { status: 400, reason: 'invalid_input', message: `samples[${at}].responseLength: ` },
    ],
    [
      'an unknown field',
      () => JSON.stringify(body({ reward: 1 })),
      { status: 400, reason: 'invalid_input', message: `samples[${at}]: unknown field "reward"` },
    ],
    [
      'a sample that is not an object',
      () => JSON.stringify(body({ uid: 'HERE' })).replace(/\{[^{]*"HERE"[^}]*\}/, '5'),
      { status: 400, reason: 'invalid_input', message: `samples[${at}]: ` },
    ],
    [
      'an integer past 2^53',
      () => JSON.stringify(body({ groundTruth: 'HERE' })).replace('"HERE"', '9007199254740993'),
      {
        status: 400,
        reason: 'integer_out_of_range',
        message: /9007199254740993.*groundTruth/,
        hint: /string/,
      },
    ],
    [
      'an integer past 2^53 beside the samples',
      () => JSON.stringify(body({})).replace('"step":1', '"step":90071992547409930'),
      { status: 400, reason: 'integer_out_of_range', message: /90071992547409930.*step/ },
    ],
    [
      'a duplicate index',
      () =>
        JSON.stringify(body({ index: at }, {})).replace('"uid":"q-0"', `"uid":"q-0","index":${at}`),
      {
        status: 400,
        reason: 'duplicate_index',
        message: `samples[${at}].index is ${at}, and so is samples[0].index`,
      },
    ],
    [
      'a group larger than groupSize',
      () => JSON.stringify(body({ uid: 'q-0' }, { groupSize: 1 })),
      { status: 400, reason: 'group_too_large', message: 'uid "q-0" has 2 samples' },
    ],
    [
      'a data source without a rule',
      () => JSON.stringify(body({ dataSource: 'mine' })),
      { status: 400, reason: 'unknown_data_source', message: /"mine".*openai\/gsm8k/ },
    ],
    [
      'an unknown manager',
      () => JSON.stringify(body({}, { reward: { manager: 'dap' } })),
      { status: 400, reason: 'unknown_manager', message: /"dap".*naive/ },
    ],
    [
      'an unknown model',
      () => JSON.stringify(body({}, { reward: { model: 'rm' } })),
      { status: 400, reason: 'unknown_model', message: /"rm"/ },
    ],
    [
      'no run',
      () => JSON.stringify({ ...body({}), run: undefined }),
      { status: 400, reason: 'invalid_input', message: 'run: is missing' },
    ],
    [
      'samples under another name',
      () => JSON.stringify(body({})).replace('"samples":', '"rollouts":'),
      { status: 400, reason: 'invalid_input', message: 'samples: is missing' },
    ],
    [
      'a list as the body',
      () => JSON.stringify(body({}).samples),
      { status: 400, reason: 'invalid_input', message: /object/ },
    ],
  ]
  it.each(cases)('refuses %s', async (_, text, refusal) => {
    await nothingStored(service, async () => {
      expectRefusal(await service.post('batches.submit', text()), refusal)
    })
  })

  it('refuses bytes that are not UTF-8 instead of changing them', async () => {
    const [before, after] = JSON.stringify(body({ uid: 'HERE' })).split('HERE') as [string, string]
    const bytes = Buffer.concat([
      Buffer.from(`${before}x`),
      Buffer.from([0xed, 0xa0, 0x80]),
      Buffer.from(after),
    ])
    await nothingStored(service, async () => {
      expectRefusal(await service.post('batches.submit', bytes), {
        status: 400,
        reason: 'malformed_json',
        message: 'UTF-8',
      })
    })
  })

  it('refuses an idempotency key used for other content, and recognizes equal content', async () => {
    const idempotencyKey = `large-bodies-${count}`
    const first = await service.api.batches.submit.mutate(body({}, { idempotencyKey }))
    await nothingStored(service, async () => {
      const again = await service.api.batches.submit.mutate(body({}, { idempotencyKey }))
      expect(again).toEqual({ ...first, duplicate: true })
      const other = JSON.stringify(body({ groundTruth: '73' }, { idempotencyKey }))
      expectRefusal(await service.post('batches.submit', other), {
        status: 409,
        reason: 'idempotency_conflict',
        message: first.batchId,
      })
    })
  })

  it('appends, recognizes a repeated append, and refuses gaps and conflicts', async () => {
    const open = { run: 'large-bodies', step: 2, samples: [], open: true }
    const { batchId } = await service.api.batches.submit.mutate(open)
    const { samples } = body({})
    const append = { batchId, startIndex: 0, samples }
    const stored = { batchId, accepted: count, samples: count }
    expect(await service.api.batches.append.mutate(append)).toEqual(stored)
    await nothingStored(service, async () => {
      const again = await service.api.batches.append.mutate(append)
      expect(again).toEqual({ ...stored, accepted: 0 })
      const gap = JSON.stringify({ ...append, startIndex: count + 1 })
      expectRefusal(await service.post('batches.append', gap), {
        status: 409,
        reason: 'append_gap',
        message: `next index is ${count}`,
      })
      const other = JSON.stringify({ ...append, samples: body({ response: 'other' }).samples })
      expectRefusal(await service.post('batches.append', other), {
        status: 409,
        reason: 'append_conflict',
        message: `sample ${at} `,
      })
      const unknown = JSON.stringify({ ...append, batchId: 'b99999999999' })
      expectRefusal(await service.post('batches.append', unknown), {
        status: 404,
        reason: 'batch_not_found',
        message: 'b99999999999',
      })
    })
    await service.api.batches.close.mutate({ batchId })
  })

  it('stores every text exactly as it was sent', async () => {
    const odd = {
      prompt: 'NUL \u0000, a lone high \ud83d and a lone low \udc00 surrogate, BOM \ufeff, 𝔘',
      response: `\u0000\ud800 "quotes" \\ back\\u0000slash \r\n\t \u2028 ${pad}\n#### 72\udfff`,
      groundTruth: '7\u00002\ud834',
      extraInfo: {
        '\u0000key\udead': 'value\u0000\ud800',
        nested: { list: [[], null, 0.1, -0, 1e21, 9007199254740991, -5e-324, ''] },
      },
    }
    const messages = [
      { role: 'system', content: '' },
      { role: 'user', content: 'a\u0000b\ud800', name: 'x' },
    ]
    const { batchId } = await service.api.batches.submit.mutate(body(odd))
    const id = `${batchId}-${at}`
    const got = await service.api.samples.get.query({ id })
    expect(got).toMatchObject(JSON.parse(JSON.stringify(odd)))
    const second = await service.api.batches.submit.mutate(body({ prompt: messages }))
    const sent = await service.api.samples.get.query({ id: `${second.batchId}-${at}` })
    expect(sent.prompt).toEqual(messages)
    const end = await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    expect(end).toMatchObject({ status: 'completed', failed: 0, scored: count })
    const { score } = await service.api.batches.results.query({ batchId })
    expect(score.filter((s) => s === 1).length).toBeGreaterThanOrEqual(count - 1)
  })

  it.each([
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
  ] as const)('accepts a body compressed with %s', async (encoding, pack) => {
    const packed = pack(Buffer.from(JSON.stringify(body({}))))
    const answer = await service.post('batches.submit', packed, { 'content-encoding': encoding })
    expect(answer.json).toMatchObject({ result: { data: { accepted: count } } })
  })

  it.each([
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
  ] as const)('refuses a body that is not valid %s or is cut short', async (encoding, pack) => {
    const plain = Buffer.from(JSON.stringify(body({})))
    const packed = pack(plain)
    const broken = Buffer.from(packed)
    broken.fill(0x55, Math.floor(packed.length / 2))
    await nothingStored(service, async () => {
      for (const bytes of [plain, packed.subarray(0, packed.length - 12), broken]) {
        const headers = { ...JSON_TYPE, 'content-encoding': encoding }
        expectRefusal(await service.post('batches.submit', bytes, headers), {
          status: 400,
          reason: 'bad_encoding',
          message: encoding,
        })
        const length = { ...headers, 'content-length': bytes.length }
        expectRefusal(await sendInFull(endpoint('batches.submit'), length, [bytes]), {
          status: 400,
          reason: 'bad_encoding',
          message: encoding,
        })
      }
    })
  })
})

describe('above its limits, the service', () => {
  const tooLarge: Refusal = { status: 413, reason: 'body_too_large', message: '256 MiB' }

  function* tooMuch(): Generator<Buffer> {
    const [before, after] = JSON.stringify(submit([{ response: 'HERE' }])).split('HERE')
    const one = JSON.stringify(sample({ response: padding(MIB) }))
    yield Buffer.from(`${before}${after?.slice(0, -2)}`)
    for (let i = 1; i < 300; i++) yield Buffer.from(`,${one}`)
    yield Buffer.from(']}')
  }

  itInFullRun('answers 413 to 300 MiB with a content-length', async () => {
    let length = 0
    for (const chunk of tooMuch()) length += chunk.length
    await nothingStored(service, async () => {
      const headers = { ...JSON_TYPE, 'content-length': length }
      expectRefusal(await sendInFull(endpoint('batches.submit'), headers, tooMuch()), tooLarge)
    })
  })

  itInFullRun('answers 413 to 300 MiB in chunks', () =>
    nothingStored(service, async () => {
      expectRefusal(await sendInFull(endpoint('batches.submit'), JSON_TYPE, tooMuch()), tooLarge)
    }),
  )

  it('answers 413 to bodies above the limit of other procedures', () =>
    nothingStored(service, async () => {
      const chunks = Array.from({ length: 20 }, () => Buffer.alloc(MIB, ' '))
      for (const headers of [JSON_TYPE, { ...JSON_TYPE, 'content-length': 20 * MIB }]) {
        expectRefusal(await sendInFull(endpoint('servers.register'), headers, chunks), {
          ...tooLarge,
          message: '16 MiB',
          hint: /batches\.submit/,
        })
      }
    }))

  it.each([
    // zstd needs 10 % of gzip's time to compress.
    ['zstd', (bytes: Buffer) => zstdCompressSync(bytes)],
    ...inFullRun(['gzip', (bytes: Buffer) => gzipSync(bytes, { level: 1 })] as const),
  ] as const)('answers 413 to a %s bomb', async (encoding, pack) => {
    const text = JSON.stringify(submit([{}]))
    const bombOf = (bytes: number) =>
      pack(Buffer.concat([Buffer.from(text.slice(0, -2)), Buffer.alloc(bytes, ' ')]))
    const bombs = [
      ['batches.close', bombOf(20 * MIB), '16 MiB'],
      // The text of this bomb takes seconds to compress, send and count.
      ...inFullRun(['batches.submit', bombOf(260 * MIB), '256 MiB'] as const),
    ] as const
    const headers = { ...JSON_TYPE, 'content-encoding': encoding }
    const send = (path: string, bytes: Buffer) =>
      sendInFull(endpoint(path), { ...headers, 'content-length': bytes.length }, [bytes])
    await nothingStored(service, async () => {
      for (const [path, bomb, message] of bombs) {
        expect(bomb.length).toBeLessThan(2 * MIB)
        expectRefusal(await send(path, bomb), { ...tooLarge, message })
      }
    })
  })

  /** Waits until the service is copying `count` bodies: 0 or 1, because it copies only one at a time. */
  const underWay = (count: number) =>
    waitFor(`${count} bodies in a copy`, async () => {
      const [row] = await service.sql<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity
         where application_name = 'rewardops ingest' and xact_start is not null`,
      )
      return row?.n === count
    })

  const large = JSON.stringify(
    submit(Array.from({ length: 12 }, () => ({ response: padding(MIB) }))),
  )
  const most = Buffer.from(large.slice(0, (large.length * 10) / 12))
  const rest = Buffer.from(large.slice((large.length * 10) / 12))

  it('refuses a third concurrent large body as busy, and accepts it later', async () => {
    const gate = Promise.withResolvers<void>()
    const held = [1, 2].map(() => holdHalfWay(endpoint('batches.submit'), most, rest, gate.promise))
    await Promise.all(held.map((h) => h.sent))
    await underWay(1)
    const busy = await service.post('batches.submit', large)
    expectRefusal(busy, { status: 503, reason: 'busy', message: 'large bodies' })
    expect(Number(busy.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    gate.resolve()
    for (const { status } of await Promise.all(held.map((h) => h.answer))) expect(status).toBe(200)
    const answer = await service.api.batches.submit.mutate(JSON.parse(large))
    expect(answer.accepted).toBe(12)
  })

  it('drops a body whose client disconnects half-way', async () => {
    const never = new Promise<void>(() => {})
    await nothingStored(service, async () => {
      const gone = [1, 2].map(() => holdHalfWay(endpoint('batches.submit'), most, rest, never))
      await Promise.all(gone.map((held) => held.sent))
      await underWay(1)
      for (const held of gone) {
        held.hangUp()
        await expect(held.answer).rejects.toThrow()
      }
      await underWay(0)
    })
    const answer = await service.api.batches.submit.mutate(JSON.parse(large))
    expect(answer.accepted).toBe(12)
  })
})
