import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parsePrometheusText, seriesValue } from '../../testkit/service/prometheus-text.ts'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const STREAMS = 50

let service: Service

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1' } })
})
afterAll(() => stopCleanly(service))

interface Stream {
  said(words: string): Promise<void>
  leave(): void
}

async function open(): Promise<Stream> {
  const gone = new AbortController()
  const { statusCode, body } = await request(`${service.url}/api/trpc/live.events`, {
    headers: { accept: 'text/event-stream' },
    signal: gone.signal,
  })
  expect(statusCode).toBe(200)
  let text = ''
  body.setEncoding('utf8')
  body.on('data', (piece: string) => {
    text += piece
  })
  body.on('error', () => {})
  return {
    said: async (words) => {
      await waitFor(`${words} on a stream`, () => text.includes(words))
    },
    leave: () => gone.abort(),
  }
}

async function subscribers(): Promise<number> {
  const { text } = await service.raw('/metrics')
  return seriesValue(parsePrometheusText(text), 'rewardops_live_streams')
}

const wait = (n: number) => waitFor(`${n} open streams`, async () => (await subscribers()) === n)

describe('live streams', () => {
  it(`receive changes while open, and leave no subscriber once closed: ${STREAMS} streams`, async () => {
    const streams = await Promise.all(Array.from({ length: STREAMS }, open))
    await wait(STREAMS)
    const { batchId } = await service.api.batches.submit.mutate({
      run: 'streams',
      step: 1,
      samples: rollouts(64),
    })
    await Promise.all(streams.map((stream) => stream.said(`batch:${batchId}`)))
    for (const stream of streams.slice(0, 20)) stream.leave()
    await wait(STREAMS - 20)
    for (const stream of streams.slice(20)) stream.leave()
    await wait(0)
  })

  it('leave no subscriber when aborted before the first byte or during an event', async () => {
    for (let round = 0; round < 5; round++) {
      const submit = service.api.batches.submit.mutate({
        run: 'streams',
        step: round + 2,
        samples: rollouts(64),
      })
      const aborted = Array.from({ length: STREAMS / 5 }, async (_, i) => {
        const gone = new AbortController()
        const answer = request(`${service.url}/api/trpc/live.events`, { signal: gone.signal })
        if (i % 3 === 0) gone.abort()
        else if (i % 3 === 1) setImmediate(() => gone.abort())
        await answer
          .then(async ({ body }) => {
            body.on('error', () => {})
            body.once('data', () => gone.abort())
            await new Promise((resolve) => body.once('close', resolve))
          })
          .catch((error: Error) => expect(error.name).toBe('AbortError'))
      })
      await Promise.all([submit, ...aborted])
    }
    await wait(0)
    const stream = await open()
    await wait(1)
    stream.leave()
    await wait(0)
  })
})
