import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { dataUrl, noisePng } from '../../testkit/service/noise-png.ts'
import type { SentTurn } from '../contract/turn-text.ts'
import { createLogger } from '../log.ts'
import { type Client, Database, inTransaction } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { releaseImages, stageImages, storeImages } from './sql/images.ts'
import { ImageCollector, loadImages } from './stored-images.ts'
import { encodeTexts, type GivenTexts } from './stored-texts.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('silent', 'test'), { max: 3, name: 'test' })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate image, batch_image'))

const PNG = noisePng('a', 40)
const OTHER = noisePng('b', 40)
const LAST = noisePng('c', 40)
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

const withImages = (...urls: string[]): GivenTexts => ({
  prompt: [
    { role: 'user', content: urls.map((url) => ({ type: 'image_url', image_url: { url } })) },
  ],
  response: 'r',
})
const taken = (images: ImageCollector, sample: GivenTexts, where = 'sample') =>
  images.take(encodeTexts(sample), sample, where)
const collector = (policy = {}) => new ImageCollector({ maxBytes: 1e6, isApart: true, ...policy })
const store = (batchId: number, images: ReadonlyMap<string, Buffer | null>) =>
  db.transaction((client) => storeImages(client, batchId, images))
const count = async () =>
  (await db.adhoc<{ n: number }>('select count(*)::int as n from image'))[0]!.n

it('an image is taken out once, and every byte of the messages comes back', async () => {
  const images = collector()
  const [image, other] = [PNG, OTHER].map((png) => ({ z: 1, type: 'image', image: dataUrl(png) }))
  const samples: GivenTexts[] = [
    withImages(dataUrl(PNG), dataUrl(OTHER)),
    withImages(dataUrl(PNG, 'image/x-odd;q=1')),
    {
      prompt: 'p',
      response: [
        { role: 'assistant', tool_calls: [{ id: '"' }], content: null } as SentTurn,
        {
          10: 'ten',
          content: [image!, { type: 'text', text: '\u0000\ud800' }, other!],
          role: 'tool',
        } as SentTurn,
        { role: 'assistant', content: '7' },
      ],
    },
  ]
  const stored = samples.map((sample) => taken(images, sample))
  expect(images.images.size).toBe(2)
  for (const { prompt, response } of stored) expect((prompt + response).length).toBeLessThan(600)
  await store(1, images.images)
  await loadImages(db, stored)
  expect(stored).toEqual(samples.map(encodeTexts))
})

it.each([
  ['base64 that is not canonical', `${dataUrl(PNG).replace(/=*$/, '')}====`],
  ['base64 with line ends', dataUrl(PNG).replace(/(.{76})/g, '$1\n')],
  ['an image of a few bytes', dataUrl(PNG.subarray(0, 60))],
  ['a URL', `https://images.invalid/${'a'.repeat(1_000)}.png`],
  ['a reference after JSON is parsed', `data:image/png;base64,/${'a'.repeat(64)}`],
  ['a reference as it is stored', `data:image/png;base64,\\/${'a'.repeat(64)}`],
  ['a text that quotes a reference', `"data:image/png;base64,\\/${'a'.repeat(64)}"`],
])('%s stays in its message, beside an image that does not', async (_, url) => {
  const images = collector()
  const sample = withImages(url, dataUrl(PNG), url)
  const stored = taken(images, sample)
  expect([...images.images.values()]).toEqual([PNG])
  await store(1, images.images)
  await loadImages(db, [stored])
  expect(stored).toEqual(encodeTexts(sample))
  expect(taken(images, withImages(url))).toEqual(encodeTexts(withImages(url)))
})

it('every text that a reward reads stays, even if it is a data URL', () => {
  const url = dataUrl(PNG)
  const call = { function: { name: 'show', arguments: { image_url: { url } } } }
  const text = { type: 'text', text: url, image_url: { url } }
  const sample: GivenTexts = {
    prompt: url,
    response: [
      { role: 'assistant', content: [text, { type: 'audio' }], tool_calls: [call] } as SentTurn,
      { role: 'tool', content: url },
    ],
  }
  expect(taken(collector(), sample)).toEqual(encodeTexts(sample))
})

it('images stay in their messages while an earlier version runs, and can be taken out later', () => {
  const images = collector()
  const sample = withImages(dataUrl(PNG))
  const inPlace = taken(collector({ isApart: false }), sample)
  expect(inPlace).toEqual(encodeTexts(sample))
  const apart = taken(images, sample)
  expect(images.takeStored(inPlace)).toEqual(apart)
  expect(images.takeStored(apart)).toEqual(apart)
})

it.each([true, false])('the error for a large image names its sample (apart: %s)', (isApart) => {
  const images = collector({ isApart, maxBytes: PNG.length })
  taken(images, withImages(dataUrl(PNG)), 'samples[0]')
  expect(() => taken(images, withImages(dataUrl(noisePng('c', 48))), 'samples[3]')).toThrow(
    expect.objectContaining({
      reason: 'image_too_large',
      message: expect.stringContaining('samples[3]'),
    }),
  )
})

it('an image is deleted with the last batch that refers to it', async () => {
  const images = collector()
  taken(images, withImages(dataUrl(PNG), dataUrl(OTHER)))
  const [first] = images.images
  await store(1, images.images)
  await store(2, new Map([first!]))
  const release = (batchId: number) => db.transaction((client) => releaseImages(client, batchId))
  expect(await release(1)).toBe(OTHER.length)
  expect(await count()).toBe(1)
  expect(await release(1)).toBeNull()
  expect(await release(2)).toBe(PNG.length)
  expect(await count()).toBe(0)
})

const waits = async (pid: number) => {
  const [row] = await db.adhoc<{ blocked: boolean }>(
    'select cardinality(pg_blocking_pids($1)) > 0 as blocked',
    [pid],
  )
  return row!.blocked
}
const pidOf = async (client: Client) =>
  (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid

it.each([
  ['a submit that holds an image', 'submit'],
  ['a removal that is about to delete it', 'removal'],
] as const)('%s is waited for, and no reference is left without its image', async (_, first) => {
  const images = collector()
  taken(images, withImages(dataUrl(PNG)))
  await store(1, images.images)
  const steps = {
    submit: (client: Client) => storeImages(client, 2, images.images),
    removal: (client: Client) => releaseImages(client, 1),
  }
  const second = first === 'submit' ? 'removal' : 'submit'
  const pid = Promise.withResolvers<number>()
  let other: Promise<unknown> | undefined
  await db.holding((client) =>
    inTransaction(client, async () => {
      await steps[first](client)
      other = db.transaction(async (later) => {
        pid.resolve(await pidOf(later))
        await steps[second](later)
      })
      const waiting = await pid.promise
      await expect.poll(() => waits(waiting)).toBe(true)
    }),
  )
  await other
  const [left] = await db.adhoc<{ images: number; refs: number }>(
    `select (select count(*)::int from image) as images, (select count(*)::int from batch_image) as refs`,
  )
  expect(left).toEqual({ images: 1, refs: 1 })
  expect(await db.transaction((client) => releaseImages(client, 2))).toBe(PNG.length)
})

it('images are staged while a body arrives, and stored at its end', async () => {
  await store(1, new Map([[hashOf(OTHER), OTHER]]))
  const images = collector()
  const early = taken(images, withImages(dataUrl(PNG), dataUrl(OTHER)))
  const received = [early]
  await db.transaction(async (client) => {
    await stageImages(client, images.handOver())
    expect(images.byteLength).toBe(0)
    received.push(taken(images, withImages(dataUrl(PNG), dataUrl(LAST))))
    expect(images.byteLength).toBe(LAST.length)
    await stageImages(client, images.handOver())
    await storeImages(client, 2, images.images)
  })
  expect(await count()).toBe(3)
  await loadImages(db, received)
  expect(received[0]).toEqual(encodeTexts(withImages(dataUrl(PNG), dataUrl(OTHER))))
  // A stored image is not staged. If it is removed before the request ends, the request is refused and can be sent
  // again.
  const late = collector()
  taken(late, withImages(dataUrl(LAST)))
  const refused = db.transaction(async (client) => {
    await stageImages(client, late.handOver())
    await db.transaction((other) => releaseImages(other, 2))
    await storeImages(client, 3, late.images)
  })
  await expect(refused).rejects.toMatchObject({ reason: 'busy', retryAfterMs: 2_000 })
})

it('two submits of one new image store it once', async () => {
  const images = collector()
  taken(images, withImages(dataUrl(PNG), dataUrl(OTHER)))
  await Promise.all([1, 2, 3].map((batchId) => store(batchId, images.images)))
  expect(await count()).toBe(2)
})
