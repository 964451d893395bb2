import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../../../testkit/processes/port.ts'
import {
  startWebhookReceiver,
  type WebhookReceiver,
} from '../../../testkit/service/webhook-receiver/process.ts'
import { MAX_ATTEMPTS } from '../../contract/alerts.ts'
import { alertBody, testPayload } from './alert-payload.ts'
import { waitAfter } from './alert-sender.ts'
import { postWebhook, webhookUrlProblem } from './post-webhook.ts'
import { displayUrl } from './webhooks.ts'

let receiver: WebhookReceiver
beforeAll(async () => {
  receiver = await startWebhookReceiver()
})
afterAll(() => receiver?.stop())

const event = { id: 'e-1', attempt: 3, body: '{"a":1}' }
const post = (path: string, secret: string | null = null, answerMs?: number) =>
  postWebhook({ url: `${receiver.url}${path}`, secret }, event, answerMs)

describe('a call to a webhook', () => {
  it('names the page below the prefix of the service', () => {
    const { path } = JSON.parse(alertBody(testPayload('w'), '/rewardops'))
    expect(path).toBe('/rewardops/runs/test#monitor-failures')
  })

  it('carries a signature and the number of the attempt', async () => {
    expect(await post('/ok?key=k', 'a secret of mine')).toMatchObject({
      ...{ delivered: true, status: 200, answer: 'thank you', error: null },
    })
    const { headers, body } = (await receiver.received()).at(-1)!
    const { t, v1 } = Object.fromEntries(
      headers['x-rewardops-signature']!.split(',').map((part) => part.split('=')),
    )
    expect(body).toBe(event.body)
    expect(v1).toBe(createHmac('sha256', 'a secret of mine').update(`${t}.${body}`).digest('hex'))
    expect(Math.abs(Number(t) - Date.now() / 1_000)).toBeLessThan(60)
    expect(headers).toMatchObject({ 'x-rewardops-event': 'e-1', 'x-rewardops-attempt': '3' })
  })

  it('counts as failed after an error, a redirect, a timeout or a refused connection', async () => {
    expect(await post('/error')).toMatchObject({
      ...{
        delivered: false,
        status: 500,
        answer: 'the receiver broke',
        error: 'responded with 500',
      },
    })
    const before = (await receiver.received()).length
    expect(await post('/redirect')).toMatchObject({ delivered: false, status: 302 })
    expect((await receiver.received()).slice(before).map(({ path }) => path)).toEqual(['/redirect'])
    expect(await post('/slow', null, 150)).toMatchObject({
      ...{ delivered: false, status: null, error: 'no answer within 0.15 s' },
    })
    const url = `http://127.0.0.1:${await freePort()}/hidden`
    const away = await postWebhook({ url, secret: null }, event)
    expect(away).toMatchObject({ delivered: false, status: null })
    expect(away.error).toContain('connection refused')
    expect(away.error).not.toContain('hidden')
  })

  it.each(['/broken', '/endless'])(
    'is delivered by a 200 whose body is incomplete: %s',
    async (path) => {
      expect(await post(path, null, 500)).toMatchObject({
        ...{ delivered: true, status: 200, answer: 'thank', error: null },
      })
    },
  )

  it('is sent only to allowed addresses', () => {
    expect(webhookUrlProblem('https://hooks.example.com/a/b?key=1')).toBeNull()
    expect(webhookUrlProblem('http://127.0.0.1:80/x')).toBeNull()
    for (const url of [
      ...['ftp://example.com/', 'file:///etc/passwd', 'javascript:alert(1)', 'example.com/hook'],
      ...['http://user:pass@example.com/', 'http://169.254.169.254/latest', 'https://a.example/#x'],
    ])
      expect(webhookUrlProblem(url), url).not.toBeNull()
  })

  it('is shown with only the end of its URL', () => {
    expect(displayUrl('https://hooks.slack.com/services/T000/B000/abcdefghijkl')).toBe(
      'https://hooks.slack.com/…ijkl',
    )
    expect(displayUrl('http://127.0.0.1:4000/hook')).toBe('http://127.0.0.1:4000/…')
    expect(displayUrl('http://127.0.0.1:4000')).toBe('http://127.0.0.1:4000')
  })

  it('is retried after a random wait with a doubling limit, up to the last attempt', () => {
    expect(waitAfter(1, () => 0)).toBe(0)
    expect(waitAfter(1, () => 0.999)).toBe(999)
    expect(waitAfter(4, () => 1)).toBe(8_000)
    expect(waitAfter(MAX_ATTEMPTS - 1, () => 1)).toBe(600_000)
    expect(waitAfter(MAX_ATTEMPTS, () => 0)).toBeNull()
  })
})
