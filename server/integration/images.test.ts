import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRollouts } from '../../packages/cli/rollouts/read-rollouts.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { dataUrl, noisePng } from '../../testkit/service/noise-png.ts'
import { expectRefusal, nothingStored } from '../../testkit/service/refusals.ts'
import { sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { IMAGES_SINCE, SCHEMA_VERSION } from '../store/schema-version.ts'

const folder = mkdtempSync(join(tmpdir(), 'rewardops-images-'))
let service: Service

beforeAll(async () => {
  service = await Service.start({
    env: {
      ...{ REWARDOPS_WORKERS: '1', REWARDOPS_FUNCTIONS_DIR: folder, REWARDOPS_MAX_IMAGE_MB: '1' },
    },
  })
  writeFileSync(
    join(folder, 'seen.ts'),
    `import { createHash } from 'node:crypto'
    const hash = (value) => createHash('sha256').update(JSON.stringify(value)).digest('hex')
    export default ({ prompt, messages }) => ({ score: 1, prompt: hash(prompt), messages: hash(messages) })
    export const group = ({ prompts }) => prompts.map((prompt) => ({ score: 1, prompt: hash(prompt) }))`,
  )
})
afterAll(() => stopCleanly(service, () => rmSync(folder, { recursive: true, force: true })))

const hashOf = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('hex')
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const image = (url: string) => ({ type: 'image_url', image_url: { url, detail: 'low' } })

function siblings(count: number, name: string) {
  const asked = noisePng(`${name}-prompt`, 60)
  const shown = noisePng(`${name}-tool`, 60)
  const text = { type: 'text', text: 'What is it? \u0000' }
  return Array.from({ length: count }, (_, i) => ({
    ...sample({ uid: name }),
    prompt: [{ role: 'user', content: [text, image(dataUrl(asked))] }],
    response: [
      { role: 'tool', content: [image(dataUrl(shown)), { type: 'text', text: `${i}` }] },
      { role: 'assistant', content: `Answer ${i}\n#### 72` },
    ],
  }))
}
const submit = async (samples: object[], more: object = {}) => {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'images', step: 1, samples: samples as never },
    ...more,
  })
  return batchId
}
const ended = async (batchId: string) => {
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  return service.api.batches.results.query({ batchId })
}
const stored = async () => {
  const [row] = await service.sql<{ images: number; refs: number; compatible: number }>(
    `select (select count(*)::int from image) as images, (select count(*)::int from batch_image) as refs,
       (select max(compatible_from) from schema_version) as compatible`,
  )
  return row!
}
const bytesOf = async (batchId: string) => {
  const [row] = await service.sql<{ bytes: number }>(
    'select sum(octet_length(prompt) + octet_length(response))::int as bytes from sample_text where batch_id = $1',
    [Number(batchId.slice(1))],
  )
  return row!.bytes
}
const SEEN = { function: { path: 'seen.ts' } }

itInFullRun('images stay in their messages while an earlier version runs', async () => {
  const reports = async () => {
    const [row] = await service.sql<{ at: Date }>(
      "select max(last_seen_at) as at from process where role = 'server' and version = $1",
      [SCHEMA_VERSION],
    )
    return row!.at.getTime()
  }
  /** Waits for two reports of the server. Between them, the server has checked the other processes. */
  const reported = async () => {
    for (let n = 0; n < 2; n++) {
      const before = await reports()
      await waitFor('a report', async () => (await reports()) > before)
    }
  }
  // Allows a process of the earlier version to run on this schema.
  await service.sql('update schema_version set compatible_from = $1', [IMAGES_SINCE - 1])
  const [{ id } = { id: 0 }] = await service.sql<{ id: number }>(
    `insert into process (host, pid, local, state, role, version, last_seen_at)
     values ('elsewhere', 1, false, 'alive', 'worker', $1, now() + interval '1 hour') returning id`,
    [IMAGES_SINCE - 1],
  )
  await reported()
  const samples = siblings(2, 'early')
  const key = { idempotencyKey: 'early', open: true }
  const batchId = await submit(samples, key)
  expect(await stored()).toEqual({ images: 0, refs: 0, compatible: IMAGES_SINCE - 1 })
  await service.sql('delete from process where id = $1', [id])
  await reported()
  // The repeated calls count as equal to the first ones, although new images would now be stored separately.
  expect(await submit(samples, key)).toBe(batchId)
  await service.api.batches.append.mutate({ batchId, startIndex: 0, samples: samples as never })
  expect(await stored()).toMatchObject({ images: 0 })
  await service.api.batches.close.mutate({ batchId })
  await ended(batchId)
  const later = await submit(siblings(2, 'later'))
  expect(await stored()).toEqual({ images: 2, refs: 2, compatible: IMAGES_SINCE })
  expect(await bytesOf(later)).toBeLessThan(2_000)
})

describe('images are stored once', () => {
  it('by a submit, and functions and readers get them as sent', async () => {
    const before = await stored()
    const samples = siblings(8, 'small')
    const batchId = await submit(samples, { reward: SEEN })
    const results = await ended(batchId)
    expect(results.rewardExtraInfo).toMatchObject({
      prompt: samples.map(({ prompt }) => hashOf(prompt)),
      messages: samples.map(({ response }) => hashOf(response)),
    })
    const detail = await service.api.samples.get.query({ id: `${batchId}-3` })
    expect(detail).toMatchObject({ prompt: samples[3]!.prompt, messages: samples[3]!.response })
    expect(await stored()).toMatchObject({ images: before.images + 2, refs: before.refs + 2 })
    expect(await bytesOf(batchId)).toBeLessThan(8_000)
    const group = { manager: 'batch', function: { path: 'seen.ts', name: 'group' } }
    const { rewardExtraInfo } = await ended(await submit(samples, { reward: group }))
    expect(rewardExtraInfo.prompt).toEqual(samples.map(({ prompt }) => hashOf(prompt)))
    const { items } = await service.api.samples.list.query({ batch: batchId, text: 'What is it?' })
    expect(items).toHaveLength(8)
  })

  itInFullRun('by a large body, by appends and by single samples', async () => {
    const samples = siblings(120, 'large')
    expect(JSON.stringify(samples).length).toBeGreaterThan(2 << 20)
    const before = await stored()
    const batchId = await submit(samples, { reward: SEEN, open: true })
    const append = { batchId, startIndex: 120, samples: siblings(120, 'large') as never }
    await service.api.batches.append.mutate(append)
    await service.api.batches.append.mutate(append)
    const other = siblings(120, 'other')
    await expect(
      service.api.batches.append.mutate({ ...append, samples: other as never }),
    ).rejects.toThrow('other content')
    for (const [i, one] of siblings(3, 'large').entries()) {
      const answer = await service.api.samples.score.mutate({
        ...{ run: 'images', step: 1, batchId, sample: one as never, idempotencyKey: `single-${i}` },
      })
      expect(answer.rewardExtraInfo).toMatchObject({ messages: hashOf(one.response) })
    }
    await service.api.batches.close.mutate({ batchId })
    const { rewardExtraInfo } = await ended(batchId)
    expect(rewardExtraInfo.messages).toEqual(
      [...samples, ...samples, ...samples.slice(0, 3)].map(({ response }) => hashOf(response)),
    )
    expect(await stored()).toMatchObject({ images: before.images + 2, refs: before.refs + 2 })
  })

  itInFullRun('by a body whose images are sent before it has arrived', async () => {
    const pngs = Array.from({ length: 40 }, (_, i) => noisePng(`early-${i}`, 540))
    const prompts = pngs.map((png) => [{ role: 'user', content: [image(dataUrl(png))] }])
    const samples = Array.from({ length: 80 }, (_, i) => ({
      ...{ ...sample({ uid: `u${i}` }), prompt: prompts[i % 40] },
      response: `${i} ${'text '.repeat(20_000)}\n#### 72`,
    }))
    const before = await stored()
    for (const runs of [1, 2]) {
      const batchId = await submit(samples, { reward: SEEN })
      const { rewardExtraInfo } = await ended(batchId)
      expect(rewardExtraInfo.prompt).toEqual(samples.map(({ prompt }) => hashOf(prompt)))
      expect(await stored()).toMatchObject({
        ...{ images: before.images + 40, refs: before.refs + 40 * runs },
      })
      const detail = await service.api.samples.get.query({ id: `${batchId}-79` })
      expect(detail).toMatchObject({ prompt: prompts[39], response: samples[79]!.response })
    }
  })

  it('for a rescore too, also of a part', async () => {
    const samples = siblings(8, 'again')
    const batchId = await submit(samples)
    await ended(batchId)
    const before = await stored()
    for (const select of [{}, { select: { indexes: [2, 5] } }]) {
      const { batchId: again } = await service.api.batches.rescore.mutate({
        ...{ batchId, reward: SEEN as never },
        ...select,
      })
      const { rewardExtraInfo } = await ended(again)
      expect(new Set(rewardExtraInfo.prompt)).toEqual(new Set([hashOf(samples[0]!.prompt)]))
    }
    expect(await stored()).toMatchObject({ images: before.images, refs: before.refs + 4 })
  })
})

it.each(['jsonl', 'csv'])('images exported and imported as %s are unchanged', async (format) => {
  const samples = siblings(6, `export-${format}`)
  const batchId = await submit(samples)
  await ended(batchId)
  const exported = await fetch(
    `${service.url}/api/export/samples?batch=${batchId}&format=${format}`,
  )
  const path = join(folder, `export.${format}`)
  writeFileSync(path, await exported.text())
  const read = []
  for await (const { sample: one } of (await openRollouts(path, { scores: 'keep' })).rollouts())
    read.push(one)
  expect(read).toMatchObject(samples.map(({ prompt, response }) => ({ prompt, response })))
})

describe('images beyond the limit', () => {
  const large = () => dataUrl(noisePng('large', 620))
  const refusal = (message: string) => ({
    ...{ status: 413, reason: 'image_too_large' as const, message },
    hint: /REWARDOPS_MAX_IMAGE_MB/,
  })
  const withImage = { ...sample(), prompt: [{ role: 'user', content: [image('')] }] }

  it('are refused with the index of their sample, and nothing is stored', async () => {
    withImage.prompt[0]!.content[0]!.image_url.url = large()
    const body = { run: 'images', step: 1, samples: [...siblings(2, 'ok'), withImage] }
    expectRefusal(
      await nothingStored(service, () => service.post('batches.submit', JSON.stringify(body))),
      refusal('samples[2]: an image has 1.1 MiB; the limit is 1.0 MiB'),
    )
    const single = JSON.stringify({ run: 'images', step: 1, sample: withImage })
    expectRefusal(await service.post('samples.score', single), refusal('sample: an image has'))
  })
})

describe('GET /api/images', () => {
  const got = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${service.url}/api/images/${path}`, { headers })

  it('returns the bytes, with a type that follows from them', async () => {
    const png = noisePng('page', 60)
    const script = Buffer.from(
      `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script>${' '.repeat(600)}</svg>`,
    )
    const content = [
      image(dataUrl(png)),
      image(dataUrl(script)),
      image(dataUrl(script, 'image/svg+xml')),
    ]
    const batchId = await submit([{ ...sample(), prompt: [{ role: 'user', content }] }])
    const { prompt } = await service.api.samples.get.query({
      id: `${batchId}-0`,
      imagesByHash: true,
    })
    expect(prompt).toMatchObject([
      { content: [image(`data:image/png;base64,/${sha256(png)}`), {}, {}] },
    ])
    const first = await got(sha256(png))
    expect(Buffer.from(await first.arrayBuffer())).toEqual(png)
    const headers = Object.fromEntries(first.headers)
    expect(headers).toMatchObject({
      'content-type': 'image/png',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringContaining("default-src 'none'"),
    })
    // A document that was stored as an image is served as a download.
    const svg = Object.fromEntries((await got(sha256(script))).headers)
    expect(svg).toMatchObject({
      ...{ 'content-type': 'application/octet-stream', 'content-disposition': 'attachment' },
      'x-content-type-options': 'nosniff',
    })
  })

  it('refuses unknown and malformed URLs', async () => {
    for (const path of ['0'.repeat(64), 'x', '../images/y', `${'0'.repeat(64)}/z`]) {
      const answer = await service.raw(`/api/images/${path}`)
      expectRefusal(answer, { status: 404, reason: 'image_not_found', message: /./ })
    }
    const posted = await fetch(`${service.url}/api/images/x`, { method: 'POST' })
    expect(posted.status).toBe(405)
  })
})

describe('retention', () => {
  it('drops an image with its last sample, by rows and by whole days', async () => {
    const policyOf = (textsDays: number) => ({
      ...{ textsDays, batchesDays: null, keepRollUps: true, eventsDays: null, auditDays: null },
    })
    const remove = async (textsDays: number) => {
      await service.api.retention.set.mutate(policyOf(textsDays))
      const { id } = await service.api.retention.start.mutate()
      return waitFor('the removal', async () => {
        const job = (await service.api.retention.get.query()).jobs.find((one) => one.id === id)
        return job?.state === 'done' && job
      })
    }
    const age = async (batchId: string, days: number) => {
      await waitFor('its roll-up', async () => {
        const [row] = await service.sql<{ rolled_up: boolean }>(
          'select rolled_up from batch where id = $1',
          [Number(batchId.slice(1))],
        )
        return row?.rolled_up
      })
      await service.sql(
        `update batch set submitted_at = submitted_at - $2::int * interval '1 day' where id = $1`,
        [Number(batchId.slice(1)), days],
      )
    }
    const [one, two] = [await submit(siblings(8, 'kept')), await submit(siblings(8, 'kept'))]
    const alone = await submit(siblings(8, 'alone'))
    for (const batchId of [one, two, alone]) await ended(batchId)
    const images = async () => {
      const names = ['kept-prompt', 'kept-tool', 'alone-prompt', 'alone-tool']
      const rows = await service.sql<{ sha256: string }>(
        "select encode(sha256, 'hex') as sha256 from image",
      )
      const there = new Set(rows.map((row) => row.sha256))
      return names.filter((name) => there.has(sha256(noisePng(name, 60))))
    }
    await age(one, 40)
    await age(alone, 40)
    const policy = policyOf(30)
    const { days, reusableBytes } = await service.api.retention.preview.query({ policy })
    const [{ there } = { there: 0 }] = await service.sql<{ there: number }>(
      'select sum(samples)::int as there from batch where texts_removed_at is null',
    )
    const [prompt, tool] = [noisePng('alone-prompt', 60), noisePng('alone-tool', 60)]
    const texts = ((days[0]?.bytes ?? 0) * 16) / there
    expect(reusableBytes).toBe(Math.round(texts + prompt.length + tool.length))
    const { removed } = await remove(30)
    expect(removed).toMatchObject({ textBatches: 2 })
    expect(removed.reusableBytes).toBeGreaterThan(noisePng('alone-tool', 60).length * 2)
    expect(await images()).toEqual(['kept-prompt', 'kept-tool'])
    const detail = await service.api.samples.get.query({ id: `${two}-1` })
    expect(detail.prompt).toEqual(siblings(1, 'kept')[0]!.prompt)
    // The texts of the batch are moved to a partition of their own, which is dropped as a whole.
    await service.sql(`do $$ begin execute format(
      'create table sample_text_%s partition of sample_text for values from (%L) to (%L)',
      to_char(current_date - 90, 'YYYYMMDD'), current_date - 90, current_date - 89); end $$`)
    for (const table of ['sample_text set bucket', 'batch set text_bucket']) {
      const key = table.startsWith('batch') ? 'id' : 'batch_id'
      await service.sql(`update ${table} = current_date - 90 where ${key} = $1`, [
        Number(two.slice(1)),
      ])
    }
    await age(two, 90)
    expect((await remove(60)).removed).toMatchObject({ partitions: 1, textBatches: 1 })
    expect(await images()).toEqual([])
  })
})
