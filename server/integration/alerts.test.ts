import { createHmac } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import {
  startWebhookReceiver,
  type WebhookReceiver,
} from '../../testkit/service/webhook-receiver/process.ts'
import type { AlertPayload } from '../contract/alerts.ts'
import type { ErrorReason } from '../contract/error-reasons.ts'

const SECRET = 'a-secret-that-nobody-sees'
const env: Record<string, string> = { REWARDOPS_WORKERS: '1' }
let service: Service
let receiver: WebhookReceiver
beforeAll(async () => {
  ;[service, receiver] = await Promise.all([Service.start({ env }), startWebhookReceiver()])
})
afterAll(async () => {
  const problems = service?.log.problems()
  await Promise.all([service?.stop().finally(() => service.destroy()), receiver?.stop()])
  expect(JSON.stringify(problems)).not.toContain(SECRET)
  expect(JSON.stringify(problems)).not.toContain('very-hidden')
})

async function step(run: string, number: number, failing: number): Promise<string> {
  const samples = rollouts(32).map((sample, i) =>
    i >= 32 - failing ? { ...sample, groundTruth: { not: 'text' } } : sample,
  )
  const { batchId } = await service.api.batches.submit.mutate({ run, step: number, samples })
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  return batchId
}
const create = (input: ApiInputs['alerts']['create']) => service.api.alerts.create.mutate(input)
const deliveries = async (id: string) => (await service.api.alerts.deliveries.query({ id })).items
async function alertsAt(path: string, run: string): Promise<AlertPayload[]> {
  const calls = (await receiver.received()).filter((call) => call.path === path)
  return calls
    .map(({ body }) => JSON.parse(body) as AlertPayload)
    .filter((alert) => alert.run === run)
}

describe('alerts', () => {
  it('are sent to the receiver, signed, when an incident opens and when it ends', async () => {
    const hook = await create({
      ...{ name: 'team', url: `${receiver.url}/ok?key=very-hidden`, secret: SECRET },
      ...{ monitors: ['failures'], runs: ['watched'] },
    })
    expect(hook).toMatchObject({ signed: true, enabled: true, createdBy: 'local' })
    const batchId = await step('watched', 1, 8)
    await step('other', 1, 8)
    const [opened] = await waitFor('the alert', async () => {
      const alerts = await alertsAt('/ok', 'watched')
      return alerts.length > 0 && alerts
    })
    expect(opened).toMatchObject({
      ...{ version: 1, kind: 'opened', test: false, severity: 'alerting', monitor: 'failures' },
      ...{ run: 'watched', split: 'train', step: 1, batchId, value: 0.25, threshold: 0.1 },
      text: '[alerting] Failures: watched at step 1: 25 %, threshold 10 %',
      path: '/runs/watched#monitor-failures',
    })
    const call = (await receiver.received()).find(({ path }) => path === '/ok')!
    const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(call.headers['x-rewardops-signature']!)!
    expect(v1).toBe(createHmac('sha256', SECRET).update(`${t}.${call.body}`).digest('hex'))
    expect(call.headers['x-rewardops-event']).toBe(opened!.id)

    for (const number of [2, 3, 4]) await step('watched', number, 0)
    const alerts = await waitFor('the second alert', async () => {
      const found = await alertsAt('/ok', 'watched')
      return found.length > 1 && found
    })
    expect(alerts.map(({ kind }) => kind)).toEqual(['opened', 'resolved'])
    expect(await alertsAt('/ok', 'other')).toEqual([])
    const log = await waitFor('two recorded deliveries', async () => {
      const found = await deliveries(hook.id)
      return found.every(({ state }) => state === 'delivered') && found
    })
    expect(log).toHaveLength(2)
    expect(log[0]).toMatchObject({ kind: 'resolved', attempts: 1, status: 200, error: null })
    expect(log[0]!.latencyMs).toBeGreaterThan(0)

    const { items } = await service.api.monitors.history.query({
      run: 'watched',
      monitor: 'failures',
    })
    expect(items).toMatchObject([
      { openedStep: 1, closedStep: 4, worst: 0.25, latest: 0, closedValue: 0 },
    ])
    const list = await service.api.monitors.list.query()
    expect(list.open.filter(({ monitor }) => monitor === 'failures')).toMatchObject([
      { run: 'other', openedStep: 1 },
    ])
    const { attention } = await service.api.overview.get.query()
    expect(attention).toContainEqual({
      ...{ level: 'error', title: 'other: failures', splits: ['train'] },
      href: '/runs/other#monitor-failures',
      detail: 'since step 1: 25 %, threshold 10 %',
    })
    const { monitors } = await service.api.monitors.run.query({ run: 'watched' })
    const failures = monitors.find(({ setting }) => setting.monitor === 'failures')!
    expect(failures.points.map(({ value }) => value)).toEqual([0.25, 0, 0, 0])
    expect(failures.state).toBe('ok')
  })

  itInFullRun('arrive with their first event id once the receiver is back', async () => {
    const gone = await startWebhookReceiver()
    const hook = await create({
      ...{ name: 'comes back', url: `${gone.url}/ok`, monitors: ['failures'], runs: ['outage'] },
    })
    await gone.stop()
    await step('outage', 1, 16)
    const [tried] = await waitFor('a second attempt', async () => {
      const found = await deliveries(hook.id)
      return (found[0]?.attempts ?? 0) >= 2 && found
    })
    expect(tried).toMatchObject({ state: 'waiting', status: null })
    expect(tried!.error).toContain('connection refused')
    const back = await startWebhookReceiver(gone.port)
    const [call] = await waitFor('the alert', async () => {
      const calls = await back.received()
      return calls.length > 0 && calls
    })
    expect((JSON.parse(call!.body) as AlertPayload).id).toBe(tried!.eventId)
    expect(Number(call!.headers['x-rewardops-attempt'])).toBeGreaterThan(1)
    await waitFor(
      'the recorded delivery',
      async () => (await deliveries(hook.id))[0]?.state === 'delivered',
    )
    await back.stop()
  })

  itInFullRun('are retried after errors, and a killed server loses none', async () => {
    const hook = await create({
      ...{ name: 'flaky', url: `${receiver.url}/flaky`, monitors: ['failures'], runs: ['flaky'] },
    })
    await step('flaky', 1, 16)
    await waitFor(
      'a first attempt',
      async () => ((await deliveries(hook.id))[0]?.attempts ?? 0) >= 1,
    )
    await service.kill9('server')
    await service.restart()
    const delivered = await waitFor('the delivery', async () => {
      const [one] = await deliveries(hook.id)
      return one?.state === 'delivered' && one
    })
    expect(delivered.attempts).toBeGreaterThanOrEqual(3)
    const ids = (await alertsAt('/flaky', 'flaky')).map(({ id }) => id)
    expect(new Set(ids)).toEqual(new Set([delivered.eventId]))
  })

  it('can be tested, and the answer is shown unchanged', async () => {
    const test = async (path: string) => {
      const { id } = await create({ name: `try ${path}`, url: receiver.url + path })
      return service.api.alerts.test.mutate({ id })
    }
    expect(await test('/ok')).toMatchObject({ delivered: true, status: 200, answer: 'thank you' })
    const sent = JSON.parse((await receiver.received()).at(-1)!.body) as AlertPayload
    expect(sent).toMatchObject({ kind: 'test', test: true })
    expect(await test('/error')).toMatchObject({
      ...{
        delivered: false,
        status: 500,
        answer: 'the receiver broke',
        error: 'responded with 500',
      },
    })
    const before = (await receiver.received()).length
    expect(await test('/redirect')).toMatchObject({ delivered: false, status: 302 })
    expect((await receiver.received()).slice(before).map(({ path }) => path)).toEqual(['/redirect'])
  })

  it('never return their secrets, and are refused for forbidden addresses', async () => {
    const list = await service.api.alerts.list.query()
    expect(JSON.stringify(list)).not.toContain(SECRET)
    expect(JSON.stringify(list)).not.toContain('very-hidden')
    const { id } = list.find(({ name }) => name === 'team')!
    const changed = await service.api.alerts.update.mutate({ id, enabled: false })
    expect(changed).toMatchObject({ enabled: false, signed: true, runs: ['watched'] })
    const refused = async (input: object, reason: ErrorReason, message: string) => {
      const body = JSON.stringify({ name: 'refused', url: receiver.url, ...input })
      const answer = await service.post('alerts.create', body)
      expectRefusal(answer, { status: 400, reason, message })
    }
    await refused({ url: 'file:///etc/passwd' }, 'forbidden_url', 'file')
    await refused({ url: 'http://169.254.169.254/' }, 'forbidden_url', '169.254.169.254')
    await refused({ name: 'team' }, 'invalid_input', 'team')
    await refused({ monitors: ['no such'] }, 'invalid_input', 'monitors[0]')
    await refused({ secret: 'short' }, 'invalid_input', 'secret')
    await service.api.alerts.remove.mutate({ id })
    await expect(service.api.alerts.test.mutate({ id })).rejects.toMatchObject({
      data: { reason: 'webhook_not_found' },
    })
    expect((await service.api.alerts.list.query()).map(({ name }) => name)).not.toContain('refused')
  })
})

describe('marks', () => {
  it('are created, changed and removed, and record their creator', async () => {
    await step('marked', 1, 0)
    const mark = await service.api.marks.create.mutate({
      run: 'marked',
      step: 1,
      label: ' RM changed here ',
    })
    expect(mark).toMatchObject({
      kind: 'manual',
      label: 'RM changed here',
      note: '',
      author: 'local',
    })
    const id = mark.id!
    await service.api.marks.update.mutate({ id, step: 2, note: 'a new one' })
    expect(await service.api.marks.list.query({ run: 'marked' })).toMatchObject([
      { id, step: 2, label: 'RM changed here', note: 'a new one' },
    ])
    await expect(
      service.api.marks.create.mutate({ run: 'no such', step: 1, label: 'x' }),
    ).rejects.toMatchObject({ data: { reason: 'run_not_found' } })
    await expect(
      service.api.marks.create.mutate({ run: 'marked', step: 1, label: ' ' }),
    ).rejects.toMatchObject({ data: { reason: 'invalid_input' } })
    await service.api.marks.remove.mutate({ id })
    await expect(service.api.marks.remove.mutate({ id })).rejects.toMatchObject({
      data: { reason: 'mark_not_found' },
    })
  })
})

itInFullRun(
  'a service whose secrets key is lost starts once it is given the id of the lost key',
  async () => {
    const { id } = await create({ name: 'unreadable', url: `${receiver.url}/ok?key=very-hidden` })
    const file = `${service.dataDir}/secrets.key`
    await service.stop()
    rmSync(file)
    const refused = await service.restart().catch((error: Error) => error.message)
    expect(refused).toMatch(/secrets\.key does not exist/)
    const [, lost = ''] = /REWARDOPS_LOST_SECRETS_KEY=([0-9a-f]{8})/.exec(String(refused)) ?? []
    expect(existsSync(file)).toBe(false)
    await service.stop()

    env.REWARDOPS_LOST_SECRETS_KEY = lost
    await service.restart()
    const warning = await waitFor('the unreadable secret in the log', () =>
      service.log.find('enter it again').find(({ raw }) => raw.includes('"unreadable"')),
    )
    expect(warning.raw).toContain('webhook.url')
    await service.api.alerts.update.mutate({ id, url: `${receiver.url}/ok` })
    expect(await service.api.alerts.test.mutate({ id })).toMatchObject({ delivered: true })
  },
)
