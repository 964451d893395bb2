import { Readable } from 'node:stream'
import { request } from 'undici'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { runCli } from '../../packages/cli/testing/run-cli.ts'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { FULL } from '../../testkit/service/full-run.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { padding, rollouts, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import type { CreatedKeyDto } from '../contract/access.ts'
import type { AuditPageDto } from '../contract/audit.ts'
import type { RetentionJobDto, RetentionPolicy } from '../contract/retention.ts'
import { SCOPES_SINCE } from '../store/schema-version.ts'

let service: Service
beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1' } })
  // Batches of the model `never` stay unfinished.
  await service.sql(
    `insert into server (name, url, engine, kind, model, state, tags)
     values ('never', 'http://127.0.0.1:9', 'http', 'discriminative', 'never', 'unreachable', '{}')`,
  )
})
afterAll(() => stopCleanly(service))

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
type CreateKey = ApiInputs['keys']['create']
const create = (name: string, role: CreateKey['role'], more: Partial<CreateKey> = {}) =>
  service.api.keys.create.mutate({ name, role, ...more })

async function scored(run: string, count: number, more: Partial<Submit> = {}): Promise<string> {
  const { batchId } = await service.api.batches.submit.mutate({
    run,
    step: 1,
    samples: rollouts(count),
    ...more,
  })
  await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
  await waitFor('its roll-up', async () => {
    const [row] = await service.sql<{ rolled_up: boolean }>(
      'select rolled_up from batch where id = $1',
      [Number(batchId.slice(1))],
    )
    return row?.rolled_up
  })
  return batchId
}

/** Cancels unfinished batches: while a batch is running, roll-ups are not computed, and `scored` waits for roll-ups. */
async function cancelUnfinished(): Promise<void> {
  const left = await service.sql<{ id: number }>(
    "select id from batch where status in ('open', 'running')",
  )
  for (const { id } of left) await service.api.batches.cancel.mutate({ batchId: `b${id}` })
}

/** Moves batches and their texts `days` days into the past. Returns the name of the partition with the texts. */
async function backdate(batchIds: string[], days: number): Promise<string> {
  const ids = batchIds.map((id) => Number(id.slice(1)))
  const [row] = await service.sql<{ day: string }>('select (current_date - $1::int)::text as day', [
    days,
  ])
  const { day } = row!
  const table = `sample_text_${day.replaceAll('-', '')}`
  await service.sql(
    `create table if not exists ${table} partition of sample_text for values from ('${day}') to ('${day}'::date + 1)`,
  )
  await service.sql(`update sample_text set bucket = '${day}' where batch_id = any($1)`, [ids])
  await service.sql(
    `update batch set submitted_at = submitted_at - $2::int * interval '1 day', text_bucket = '${day}' where id = any($1)`,
    [ids, days],
  )
  return table
}

async function ended(job: RetentionJobDto): Promise<RetentionJobDto> {
  return waitFor('the removal', async () => {
    const { jobs } = await service.api.retention.get.query()
    const found = jobs.find(({ id }) => id === job.id)
    return found?.state !== 'running' && found
  })
}

const KEEP_ALL: RetentionPolicy = {
  textsDays: null,
  batchesDays: null,
  keepRollUps: true,
  eventsDays: null,
  auditDays: null,
}

describe('keys', () => {
  let viewer: CreatedKeyDto
  let trainer: CreatedKeyDto
  let admin: CreatedKeyDto
  beforeAll(async () => {
    viewer = await create('board', 'viewer')
    trainer = await create('ppo', 'trainer')
    admin = await create('ops', 'admin')
  })

  const requireNone = () =>
    service.apiWith(bearer(admin.key)).keys.require.mutate({ required: false })
  /** Runs `work` while every caller needs a key. */
  async function whileRequired(work: () => Promise<void>): Promise<void> {
    await service.api.keys.require.mutate({ required: true, key: admin.key })
    await work().finally(requireNone)
  }

  it('are shown once and stored nowhere', async () => {
    expect(viewer.key).toMatch(/^rwo_[\w-]{43}$/)
    expect(viewer).toMatchObject({ name: 'board', role: 'viewer', state: 'active' })
    expect(viewer.createdBy).toBe('local')
    const { keys } = await service.api.keys.list.query()
    expect(keys.map(({ name }) => name)).toContain('board')
    expect(JSON.stringify(keys)).not.toContain(viewer.key.slice(8))
    const rows = await service.sql<{ row: string }>(
      `select api_key::text || encode(hash, 'escape') as row from api_key
       union all select audit_event::text from audit_event`,
    )
    expect(rows.length).toBeGreaterThan(5)
    for (const { row } of rows) expect(row).not.toContain(viewer.key.slice(8))
  })

  it('have unique names while they are active', async () => {
    const again = await service.post('keys.create', '{"name":"board","role":"admin"}')
    expectRefusal(again, { status: 409, reason: 'name_taken', message: 'board' })
    const reserved = await service.post('keys.create', '{"name":"policy","role":"admin"}')
    expectRefusal(reserved, { status: 400, reason: 'invalid_input', message: 'reserved' })
  })

  it('are recognized even if none is required, and anonymous callers stay allowed', async () => {
    expect(await service.api.session.get.query()).toMatchObject({
      ...{ auth: 'open', name: 'local', role: 'admin', hasKey: false },
    })
    expect(await service.apiWith(bearer(viewer.key)).session.get.query()).toMatchObject({
      ...{ auth: 'open', name: 'board', role: 'viewer', hasKey: true },
    })
    // Clients of model APIs always send some key, so /v1 accepts a wrong key while none is required.
    const other = await service.raw('/v1/models', { headers: bearer('EMPTY') })
    expect(other.status).toBe(200)
  })

  it('let a viewer only read, at every URL', async () => {
    const headers = bearer(viewer.key)
    expect((await service.raw('/metrics', { headers })).status).toBe(200)
    expect((await service.raw('/v1/models', { headers })).status).toBe(200)
    expect((await service.raw('/api/trpc/batches.list', { headers })).status).toBe(200)
    const submission = { run: 'r', step: 1, samples: [sample()] }
    const large = { ...submission, samples: [sample({ response: 'x'.repeat(2 << 20) })] }
    for (const [path, body] of [
      ['batches.submit', submission],
      ['batches.submit', large],
      ['samples.score', { run: 'r', step: 1, sample: sample() }],
      ['servers.register', { name: 'rm', url: 'http://127.0.0.1:1' }],
      ['keys.create', { name: 'mine', role: 'admin' }],
    ] as const) {
      const needed = /^(batches|samples)/.test(path) ? 'trainer' : 'admin'
      expectRefusal(await service.post(path, JSON.stringify(body), headers), {
        ...{ status: 403, reason: 'forbidden_role' },
        message: `${path} needs the role ${needed}, and the key "board" has the role viewer.`,
      })
    }
    for (const path of ['/v1/chat/completions', '/compat/openrlhf/r']) {
      const answer = await service.raw(path, {
        ...{ method: 'POST', body: '{}' },
        headers: { ...headers, 'content-type': 'application/json' },
      })
      expect(answer.status).toBe(403)
      expect(answer.text).toContain('forbidden_role')
    }
    expectRefusal(await service.raw('/api/trpc/audit.list', { headers }), {
      ...{ status: 403, reason: 'forbidden_role', message: 'needs the role admin' },
    })
    const cli = await runCli(['servers', 'drain', 'rm'], {
      ...{ REWARDOPS_URL: service.url, REWARDOPS_API_KEY: viewer.key },
    })
    expect(cli.code).toBe(2)
    expect(cli.stderr).toContain(
      'servers.drain needs the role admin, and the key "board" has the role viewer.',
    )
  })

  it('let a trainer score and configure its run, and an admin do everything', async () => {
    const { batches, runs } = service.apiWith(bearer(trainer.key))
    await runs.update.mutate({ run: 'trained', config: { lr: 1e-6, hf_token: 'hidden' } })
    await runs.update.mutate({ run: 'trained', addTags: ['grpo'] })
    expectRefusal(await service.post('runs.update', '{"run":"trained"}', bearer(viewer.key)), {
      ...{ status: 403, reason: 'forbidden_role', message: 'role trainer' },
    })
    const { batchId } = await batches.submit.mutate({
      run: 'trained',
      step: 1,
      samples: [sample()],
    })
    await batches.wait.query({ batchId, waitMs: 20_000 })
    const no = await service.post('keys.revoke', `{"id":"${viewer.id}"}`, bearer(trainer.key))
    expectRefusal(no, { status: 403, reason: 'forbidden_role', message: 'role trainer' })
    const { keys } = service.apiWith(bearer(admin.key))
    const { id } = await create('desk', 'viewer')
    expect((await keys.rename.mutate({ id, name: 'wall' })).name).toBe('wall')
  })

  it('record when they were last used', async () => {
    const { id, key } = await create('used', 'trainer')
    await service.apiWith(bearer(key)).batches.list.query({})
    const used = await waitFor('its use', async () => {
      const { keys } = await service.api.keys.list.query()
      return keys.find((one) => one.id === id)?.lastUsedAt
    })
    expect(Math.abs(Date.now() - Date.parse(used))).toBeLessThan(120_000)
  })

  it('are required once a caller with an admin key requests it, and the last admin key cannot be revoked', async () => {
    const ask = (key: string | null) =>
      service.post('keys.require', JSON.stringify({ required: true, key }))
    for (const [key, message] of [
      [null, 'No key was given'],
      ['rwo_nobody', 'The key is unknown'],
      [trainer.key, 'The key has the role trainer'],
      [(await create('soon', 'admin', { expiresInDays: 1 })).key, 'The key expires'],
    ] as const) {
      expectRefusal(await ask(key), { status: 422, reason: 'admin_key_needed', message })
    }
    expect((await service.raw('/api/trpc/batches.list')).status).toBe(200)

    const answer = await ask(admin.key)
    try {
      expect(answer.json).toMatchObject({ result: { data: { requiresKey: true } } })
      const cookie = String(answer.headers['set-cookie']).split(';')[0] as string
      expect(cookie).toMatch(/^rewardops_session=[\w-]{43}$/)
      expect(await service.apiWith({ cookie }).session.get.query()).toMatchObject({
        ...{ auth: 'key', signedIn: true, name: 'ops' },
      })
      const without = await service.raw('/api/trpc/batches.list')
      expectRefusal(without, { status: 401, reason: 'unauthorized', message: 'key' })
      const wrong = await service.raw('/v1/models', { headers: bearer('EMPTY') })
      expect(wrong.status).toBe(401)

      const last = await service.post('keys.revoke', `{"id":"${admin.id}"}`, { cookie })
      expectRefusal(last, { status: 409, reason: 'last_admin_key', message: '"ops"' })
    } finally {
      await requireNone()
    }
    expect((await service.raw('/api/trpc/batches.list')).status).toBe(200)
  })

  it('end when they are revoked or expire, with their sessions and streams', async () => {
    const revoked = await create('leaves', 'viewer')
    const expired = await create('expires', 'trainer')
    await whileRequired(async () => {
      const signIn = await service.post('session.signIn', JSON.stringify({ key: revoked.key }))
      const cookie = String(signIn.headers['set-cookie']).split(';')[0] as string
      const stream = await request(`${service.url}/api/trpc/live.events`, { headers: { cookie } })
      expect(stream.statusCode).toBe(200)
      const read = stream.body.text()
      await service.apiWith(bearer(admin.key)).keys.revoke.mutate({ id: revoked.id })
      for (const headers of [bearer(revoked.key), { cookie }]) {
        expect((await service.raw('/api/trpc/batches.list', { headers })).status).toBe(401)
      }
      // Without the revocation the stream would continue for half an hour.
      await read

      await service.sql(
        `update api_key set expires_at = now() - interval '1 second' where name = 'expires'`,
      )
      await service.sql("select pg_notify('rewardops', 'a')")
      await waitFor('the end of a key', async () => {
        const { status } = await service.raw('/api/trpc/batches.list', {
          headers: bearer(expired.key),
        })
        return status === 401
      })
      const { keys } = await service.apiWith(bearer(admin.key)).keys.list.query()
      const states = new Map(keys.map(({ id, state }) => [id, state]))
      const shown = [admin, expired, revoked].map(({ id }) => states.get(id))
      expect(shown).toEqual(['active', 'expired', 'revoked'])
    })
  })

  it('only submit and read results with the access submit', async () => {
    const { key } = await create('submits', 'trainer', { access: 'submit' })
    const headers = bearer(key)
    const { batches } = service.apiWith(headers)
    const { batchId } = await batches.submit.mutate({ run: 'sub', step: 1, samples: [sample()] })
    expect(await batches.wait.query({ batchId, waitMs: 20_000 })).toMatchObject({ scored: 1 })
    const refusal = { status: 403, reason: 'forbidden_scope', message: 'only submits' } as const
    for (const path of ['/api/trpc/batches.list', '/api/trpc/live.events', '/metrics']) {
      const { status, text } = await service.raw(path, { headers })
      expect({ path, status }).toEqual({ path, status: path.includes('live') ? status : 403 })
      expect(text, path).toContain('forbidden_scope')
    }
    const batch = JSON.stringify({ batchId, reward: {} })
    expectRefusal(await service.post('batches.rescore', batch, headers), refusal)
    expectRefusal(await service.raw(`/api/export/samples?batch=${batchId}`, { headers }), refusal)
    const routed = await service.raw('/v1/models', { headers })
    expect(routed.text).toContain('forbidden_scope')
    expectRefusal(await service.post('session.signIn', JSON.stringify({ key })), {
      ...{ status: 403, reason: 'forbidden_scope', message: 'cannot sign in' },
    })
  })

  it('change nothing with the access read', async () => {
    const { key } = await create('auditor', 'admin', { access: 'read' })
    const headers = bearer(key)
    expect((await service.apiWith(headers).keys.list.query()).keys.length).toBeGreaterThan(0)
    expect((await service.raw('/metrics', { headers })).status).toBe(200)
    const refusal = { status: 403, reason: 'forbidden_scope', message: 'only reads' } as const
    const submission = { run: 'r', step: 1, samples: [sample()] }
    const large = { ...submission, samples: [sample({ response: 'x'.repeat(2 << 20) })] }
    for (const [path, body] of [
      ['keys.create', { name: 'mine', role: 'admin' }],
      ['batches.submit', submission],
      ['batches.submit', large],
      ['samples.score', { run: 'r', step: 1, sample: sample() }],
    ] as const) {
      expectRefusal(await service.post(path, JSON.stringify(body), headers), refusal)
    }
    expect((await service.post('session.signIn', JSON.stringify({ key }))).status).toBe(200)
  })

  it('with a run prefix reach only those runs, at every URL', async () => {
    const { key } = await create('team a', 'trainer', { runPrefix: 'a/' })
    const headers = bearer(key)
    const samples = [sample()]
    const other = await scored('b/ppo', 1)
    const { batches, runs } = service.apiWith(headers)
    const { batchId } = await batches.submit.mutate({ run: 'a/ppo', step: 1, samples, open: true })
    await batches.append.mutate({ batchId, startIndex: 1, samples })
    await batches.close.mutate({ batchId })
    await batches.wait.query({ batchId, waitMs: 20_000 })
    expect((await runs.get.query({ name: 'a/ppo' })).name).toBe('a/ppo')
    expect((await batches.list.query({ run: 'a/ppo' })).items).toHaveLength(1)

    const message = 'covers only runs whose names begin with "a/"'
    const refusal = { status: 403, reason: 'forbidden_scope', message } as const
    const large = [sample({ response: 'x'.repeat(2 << 20) })]
    const calls: [path: string, body: object][] = [
      ['batches.submit', { run: 'b/ppo', step: 1, samples }],
      ['batches.submit', { run: 'b/ppo', step: 1, samples: large }],
      ['batches.append', { batchId: other, startIndex: 1, samples }],
      ['batches.append', { batchId: other, startIndex: 1, samples: large }],
      ['batches.cancel', { batchId: other }],
      ['samples.score', { run: 'b/ppo', step: 1, sample: sample() }],
      ['samples.score', { run: 'a/ppo', step: 1, sample: sample(), batchId: other }],
      ['runs.update', { run: 'b/ppo', addTags: ['mine'] }],
      ['views.save', { page: 'samples', name: 'mine', query: '' }],
    ]
    for (const [path, body] of calls) {
      expectRefusal(await service.post(path, JSON.stringify(body), headers), refusal)
    }
    const ask = (path: string, input: object) =>
      service.raw(`/api/trpc/${path}?input=${encodeURIComponent(JSON.stringify(input))}`, {
        headers,
      })
    const queries: [path: string, input: object][] = [
      ['batches.next', { batchId: other }],
      ['batches.list', {}],
      ['batches.list', { run: 'b/ppo' }],
      ['samples.get', { id: `${other}-0` }],
      ['samples.list', { batch: other }],
      ['samples.list', { run: 'a/ppo', batch: other }],
      ['samples.firstLines', { ids: [`${batchId}-0`, `${other}-0`] }],
      ['runs.get', { name: 'b/ppo' }],
      ['runs.list', {}],
      ['overview.get', {}],
      ['compare.pair', { first: batchId, second: other }],
    ]
    for (const [path, input] of queries) expectRefusal(await ask(path, input), refusal)
    for (const path of [
      `/api/export/samples?batch=${other}`,
      '/api/export/samples?status=scored',
      '/api/export/samples?run=b%2Fppo',
      '/metrics',
      '/compat/openrlhf/b%2Fppo?dataSource=openai/gsm8k',
    ]) {
      expectRefusal(await service.raw(path, { headers }), refusal)
    }
    const exported = await service.raw(`/api/export/samples?batch=${batchId}`, { headers })
    expect(exported.text.trim().split('\n')).toHaveLength(2)
    expectRefusal(await ask('batches.get', { batchId: 'b2000000000' }), {
      ...{ status: 404, reason: 'batch_not_found', message: 'b2000000000' },
    })
    const page = await service.raw('/', { headers })
    expect(page.text).not.toContain('b/ppo')
  })

  it('cannot have limits that do not apply to their role', async () => {
    for (const [input, message] of [
      [{ role: 'admin', runPrefix: 'a/' }, 'runPrefix: an admin key covers every run'],
      [{ role: 'viewer', access: 'submit' }, 'access: submit needs the role trainer'],
    ] as const) {
      const answer = await service.post('keys.create', JSON.stringify({ name: 'x', ...input }))
      expectRefusal(answer, { status: 400, reason: 'invalid_input', message })
    }
    await service.sql(
      `insert into process (id, role, state, version, host, pid, local)
       select max(id) + 1000, 'worker', 'alive', $1, 'elsewhere', 1, false from process`,
      [SCOPES_SINCE - 1],
    )
    const refused = await service.post(
      'keys.create',
      '{"name":"early","role":"viewer","runPrefix":"a/"}',
    )
    expectRefusal(refused, { status: 503, reason: 'busy', message: 'an earlier version' })
    await service.sql(`delete from process where host = 'elsewhere'`)
  })

  it('are replaced by a rotation, and the previous value ends after the overlap', async () => {
    const made = await create('rotated', 'trainer')
    const works = async (key: string) =>
      (await service.apiWith(bearer(key)).session.get.query()).name === 'rotated'
    const next = await service.api.keys.rotate.mutate({ id: made.id, overlapHours: 1 })
    expect(next).toMatchObject({ id: made.id, name: 'rotated', role: 'trainer', state: 'active' })
    expect(next.previousUntil).not.toBeNull()
    expect([await works(made.key), await works(next.key)]).toEqual([true, true])
    const batchId = (
      await service.api.batches.submit.mutate({ run: 'rotated', step: 1, open: true, samples: [] })
    ).batchId
    const wait = service.raw(
      `/api/trpc/batches.wait?input=${encodeURIComponent(JSON.stringify({ batchId, waitMs: 60_000 }))}`,
      { headers: bearer(made.key) },
    )
    await service.sql(
      `update api_key set previous_until = now() - interval '1 second' where name = 'rotated'`,
    )
    await service.sql("select pg_notify('rewardops', 'a')")
    expectRefusal(await wait, { status: 401, reason: 'unauthorized', message: 'has expired' })
    expect([await works(made.key), await works(next.key)]).toEqual([false, true])
    await service.api.batches.cancel.mutate({ batchId })
    const signIn = await service.post('session.signIn', JSON.stringify({ key: next.key }))
    const cookie = String(signIn.headers['set-cookie']).split(';')[0] as string
    const nameOf = async () => (await service.apiWith({ cookie }).session.get.query()).name
    expect(await nameOf()).toBe('rotated')
    const last = await service.api.keys.rotate.mutate({ id: made.id, overlapHours: 0 })
    expect(await nameOf()).toBe('local')
    expect([await works(next.key), await works(last.key)]).toEqual([false, true])
    await service.api.keys.revoke.mutate({ id: made.id })
    expect(await works(last.key)).toBe(false)
    expectRefusal(await service.post('keys.rotate', JSON.stringify({ id: made.id })), {
      ...{ status: 404, reason: 'key_not_found', message: made.id },
    })
  })

  it('open login sessions that are listed, and end at sign-out or when an admin ends them', async () => {
    const signIn = async (agent: string) => {
      const answer = await service.post('session.signIn', JSON.stringify({ key: admin.key }), {
        'user-agent': agent,
      })
      return { cookie: String(answer.headers['set-cookie']).split(';')[0] as string }
    }
    const [laptop, phone, kiosk] = await Promise.all(['laptop', 'phone', 'kiosk'].map(signIn))
    const listed = (headers: Record<string, string>) =>
      service.apiWith(headers).sessions.list.query()
    const mine = (await listed(laptop!)).filter(({ userAgent }) => userAgent !== '')
    expect(mine.map(({ userAgent, isOwn }) => [userAgent, isOwn]).toSorted()).toEqual([
      ['kiosk', false],
      ['laptop', true],
      ['phone', false],
    ])
    expect(mine[0]).toMatchObject({ name: 'ops', role: 'admin', address: '127.0.0.1' })
    const stored = await service.sql<{ row: string }>(
      'select login_session::text as row from login_session',
    )
    for (const { cookie } of [laptop!, phone!, kiosk!]) {
      expect(JSON.stringify(stored)).not.toContain(cookie.split('=')[1])
    }

    const stream = await request(`${service.url}/api/trpc/live.events`, { headers: phone! })
    const read = stream.body.text()
    const { id } = mine.find(({ userAgent }) => userAgent === 'phone')!
    await service.apiWith(laptop!).sessions.end.mutate({ id })
    await read
    expectRefusal(await service.post('sessions.end', JSON.stringify({ id }), laptop!), {
      ...{ status: 404, reason: 'session_not_found', message: id },
    })
    const nameOf = async (headers: Record<string, string>) =>
      (await service.apiWith(headers).session.get.query()).name
    expect(await nameOf(phone!)).toBe('local')

    const out = await service.post('session.signOut', '', kiosk!)
    expect(String(out.headers['set-cookie'])).toMatch(/^rewardops_session=; Max-Age=0/)
    expect(await nameOf(kiosk!)).toBe('local')
    expect(await service.apiWith(laptop!).sessions.endOthers.mutate()).toMatchObject({
      ended: expect.any(Number),
    })
    expect((await listed(laptop!)).map(({ isOwn }) => isOwn)).toEqual([true])

    await service.sql("update login_session set last_used_at = now() - interval '25 hours'")
    await service.sql("select pg_notify('rewardops', 'a')")
    // The session stays valid, because this process has just recorded the session's use.
    expect(await nameOf(laptop!)).toBe('ops')
    await service.sql("update login_session set created_at = now() - interval '8 days'")
    await service.sql("select pg_notify('rewardops', 'a')")
    await waitFor('the end of the session', async () => (await nameOf(laptop!)) === 'local')
  })

  it('have their changes and authors in the paged audit log', async () => {
    const { keys } = service.apiWith(bearer(admin.key))
    const { id } = await create('draft', 'viewer')
    await keys.rename.mutate({ id, name: 'final' })
    await keys.revoke.mutate({ id })
    await whileRequired(async () => {})
    const { runs } = service.apiWith(bearer(trainer.key))
    await runs.update.mutate({ run: 'audited', config: { lr: 1e-6, hf_token: 'hidden' } })
    await runs.update.mutate({ run: 'audited', addTags: ['grpo'] })

    const { items, actors, actions } = await service.api.audit.list.query({
      action: 'keys.',
      limit: 200,
    })
    const entries = items.map(({ actor, action, target, changes }) => ({
      ...{ actor, action, target, changes },
    }))
    expect(entries).toContainEqual({
      ...{ actor: 'ops', action: 'keys.rename', target: 'final' },
      changes: [{ field: 'name', from: '"draft"', to: '"final"' }],
    })
    expect(entries).toContainEqual({
      ...{ actor: 'ops', action: 'keys.revoke', target: 'final' },
      changes: [{ field: 'state', from: '"active"', to: '"revoked"' }],
    })
    expect(entries).toContainEqual({
      ...{ actor: 'local', action: 'keys.require', target: 'API keys required' },
      changes: [{ field: 'required', from: 'false', to: 'true' }],
    })
    const created = entries.filter(({ action }) => action === 'keys.create')
    expect(created.filter(({ target }) => target === 'draft')).toHaveLength(1)
    expect(actors).toEqual(expect.arrayContaining(['local', 'ops', 'ppo']))
    expect(actions).toContain('keys.rename')
    const ofRuns = await service.api.audit.list.query({ action: 'runs.update' })
    const ofRun = ofRuns.items.filter(({ target }) => target === 'audited')
    expect(ofRun.map(({ changes }) => changes)).toEqual([
      [{ field: 'tags', from: '[]', to: '["grpo"]' }],
      [
        { field: 'config', from: null, to: '{"lr":0.000001,"hf_token":"•••"}' },
        { field: 'tags', from: null, to: '[]' },
      ],
    ])
    for (const run of ['a', 'b', 'c']) await service.api.limits.clear.mutate({ run })
    const ids: number[] = []
    for (let cursor: string | null = null, pages = 0; pages < 50; pages++) {
      const page: AuditPageDto = await service.api.audit.list.query({ limit: 3, cursor })
      ids.push(...page.items.map(({ id }) => Number(id)))
      cursor = page.nextCursor
      if (cursor === null) break
    }
    expect(ids.length).toBeGreaterThan(9)
    expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => b - a))
    const one = await service.api.audit.list.query({ actor: 'ops' })
    expect(new Set(one.items.map(({ actor }) => actor))).toEqual(new Set(['ops']))
  })
})

describe('a key that ends', () => {
  let keys: Record<string, CreatedKeyDto> = {}
  let rm: SimulatedServer
  beforeAll(async () => {
    rm = await SimulatedServer.start({ model: 'slow-rm' })
    await service.api.servers.register.mutate({ name: 'slow', url: rm.url })
    // The tests revoke the keys before the server answers. The samples are scored nevertheless, and `afterAll` waits
    // for their scores.
    rm.control({ latency: 'constant:4000' })
    const names = [
      'waits',
      'polls',
      'is renamed',
      'sends',
      'downloads',
      'scores',
      'speaks a dialect',
      'routes',
    ]
    const made = await Promise.all(names.map((name) => create(name, 'trainer')))
    keys = Object.fromEntries(made.map((key, at) => [names[at], key]))
  })
  afterAll(async () => {
    await waitFor('the last score', () => rm.stats().inFlight === 0)
    await cancelUnfinished()
    await service.api.servers.remove.mutate({ name: 'slow' })
    await rm?.close()
  })

  const askWith = (name: string, path: string, input: object) =>
    service.raw(`/api/trpc/${path}?input=${encodeURIComponent(JSON.stringify(input))}`, {
      headers: bearer(keys[name]!.key),
    })
  const postWith = (name: string, path: string, body: object) =>
    service.raw(path, {
      ...{ method: 'POST', body: JSON.stringify(body) },
      headers: { ...bearer(keys[name]!.key), 'content-type': 'application/json' },
    })
  const revoke = (name: string) => service.api.keys.revoke.mutate({ id: keys[name]!.id })
  /**
   * Waits until requests with these keys are in progress. It polls the time of each key's last use, which the service
   * records before the request waits.
   */
  const letIn = (...names: string[]) =>
    waitFor('requests in progress', async () => {
      const listed = (await service.api.keys.list.query()).keys
      const used = listed.filter(({ lastUsedAt }) => lastUsedAt !== null)
      return names.every((name) => used.some(({ id }) => id === keys[name]!.id))
    })
  const open = async (run: string) =>
    (await service.api.batches.submit.mutate({ run, step: 1, open: true, samples: rollouts(8) }))
      .batchId
  const revoked = { status: 401, reason: 'unauthorized', message: 'The key was revoked.' } as const

  it('ends its pending score requests at every URL, also on expiry', async () => {
    const reward = { model: 'slow-rm' }
    const score = postWith('scores', '/api/trpc/samples.score', {
      ...{ run: 'single', step: 1, reward, sample: sample() },
    })
    const dialect = postWith('speaks a dialect', '/compat/openrlhf/spoken?model=slow-rm', {
      ...{ query: ['What is 2 + 2?4'], prompts: ['What is 2 + 2?'], labels: ['4'] },
    })
    const routed = postWith('routes', '/classify', { model: 'slow-rm', input: 'text' })
    await waitFor('three calls', () => rm.stats().inFlight === 3)
    await service.sql(
      `update api_key set expires_at = now() - interval '1 second' where name = 'scores'`,
    )
    await revoke('speaks a dialect')
    await revoke('routes')
    expectRefusal(await score, { ...revoked, message: 'The key has expired.' })
    expectRefusal(await dialect, revoked)
    expect(await routed).toMatchObject({
      ...{ status: 401, json: { error: { code: 'unauthorized', message: revoked.message } } },
    })
  })

  it('ends its long polls, but not those of a renamed key', async () => {
    const [first, second] = [await open('waited'), await open('renamed')]
    const wait = askWith('waits', 'batches.wait', { batchId: first, waitMs: 60_000 })
    const next = askWith('polls', 'batches.next', {
      ...{ batchId: first, samples: 100, waitMs: 60_000 },
    })
    const renamed = askWith('is renamed', 'batches.wait', { batchId: second, waitMs: 60_000 })
    await letIn('waits', 'polls', 'is renamed')
    await service.api.keys.rename.mutate({ id: keys['is renamed']!.id, name: 'renamed' })
    await revoke('waits')
    await revoke('polls')
    expectRefusal(await wait, revoked)
    expectRefusal(await next, revoked)
    await service.api.batches.close.mutate({ batchId: second })
    expect((await renamed).json).toMatchObject({
      result: { data: { status: 'completed', scored: 8 } },
    })
  })

  it('refuses its large body that is still arriving, and stores nothing of it', async () => {
    const submission = { run: 'sent', step: 1, samples: [sample({ prompt: padding(3 << 20) })] }
    const body = Buffer.from(JSON.stringify(submission))
    async function* pieces() {
      yield body.subarray(0, body.length >> 1)
      await letIn('sends')
      await revoke('sends')
      yield body.subarray(body.length >> 1)
    }
    const answer = await request(`${service.url}/api/trpc/batches.submit`, {
      ...{ method: 'POST', body: Readable.from(pieces()) },
      headers: {
        ...{ ...bearer(keys.sends!.key), 'content-type': 'application/json' },
        'content-length': String(body.length),
      },
    })
    expect(answer.statusCode).toBe(401)
    expect(await answer.body.json()).toMatchObject({ error: { message: revoked.message } })
    const { items } = await service.api.batches.list.query({ run: 'sent' })
    expect(items).toEqual([])
  })

  it('aborts its downloads, so that they do not look complete', async () => {
    const { batchId } = await service.api.batches.submit.mutate({
      run: 'downloaded',
      step: 1,
      samples: rollouts(400),
    })
    // The texts must exceed the buffers of an unread connection. An update is faster than a submit of such texts.
    await service.sql("update sample_text set prompt = repeat('x', 40000) where batch_id = $1", [
      Number(batchId.slice(1)),
    ])
    const download = await request(`${service.url}/api/export/samples?batch=${batchId}`, {
      headers: bearer(keys.downloads!.key),
    })
    expect(download.statusCode).toBe(200)
    await revoke('downloads')
    const bytes = download.body.arrayBuffer().then(({ byteLength }) => byteLength)
    await expect(bytes).rejects.toThrow()
  })
})

describe('limits of a run', () => {
  const limits = { maxQueuedSamples: null, maxOpenBatches: null, maxPriority: null }
  const submit = (run: string, samples: object[], more: object = {}) =>
    service.post('batches.submit', JSON.stringify({ run, step: 1, samples, ...more }))
  const waiting = { reward: { model: 'never' } }

  afterAll(cancelUnfinished)

  it('refuse batches while the queue is full, and batches that never fit', async () => {
    await service.api.limits.set.mutate({
      run: 'held',
      limits: { ...limits, maxQueuedSamples: 10 },
    })
    expect((await submit('held', rollouts(8), { ...waiting, open: true })).status).toBe(200)
    const full = await submit('held', rollouts(8), waiting)
    const { retryAfterMs } = expectRefusal(full, {
      ...{
        status: 429,
        reason: 'run_queue_full',
        message: 'has 8 of at most 10 queued samples',
      },
    })
    expect(retryAfterMs).toBeGreaterThan(0)
    expectRefusal(await submit('held', rollouts(16), waiting), {
      ...{ status: 422, reason: 'run_limit', message: 'may queue at most 10' },
    })
    expect((await submit('held', [sample({ score: 1 })], waiting)).status).toBe(200)
    const { runs } = await service.api.limits.get.query()
    const held = runs.find(({ run }) => run === 'held')
    expect(held).toMatchObject({ queuedSamples: 8, openBatches: 1 })

    const [{ id } = { id: 0 }] = await service.sql<{ id: number }>(
      "select b.id from batch b join run r on r.id = b.run_id where r.name = 'held' and status = 'open'",
    )
    const append = await service.post(
      'batches.append',
      JSON.stringify({ batchId: `b${id}`, startIndex: 8, samples: rollouts(4, 4, 'more') }),
    )
    expectRefusal(append, {
      status: 429,
      reason: 'run_queue_full',
      message: '4 more exceed the limit',
    })
    await service.api.batches.cancel.mutate({ batchId: `b${id}` })
    expect((await submit('held', rollouts(8), waiting)).status).toBe(200)
  })

  it('are not exceeded by two concurrent submits', async () => {
    await service.api.limits.set.mutate({ run: 'raced', limits: { ...limits, maxOpenBatches: 3 } })
    const answers = await Promise.all(
      Array.from({ length: 9 }, () => submit('raced', [sample()], waiting)),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([
      ...[200, 200, 200, 429, 429, 429, 429, 429, 429],
    ])
  })

  it('for all runs apply to every run without its own limits', async () => {
    await service.api.limits.set.mutate({ run: 'own', limits: { ...limits, maxOpenBatches: 1 } })
    expect((await submit('own', [sample()], waiting)).status).toBe(200)
    await service.api.limits.set.mutate({ run: null, limits: { ...limits, maxPriority: 5 } })
    await waitFor('the limit', async () => {
      const answer = await submit('any', [sample()], { priority: 6 })
      if (answer.status === 200) return false
      expectRefusal(answer, { status: 422, reason: 'run_limit', message: 'priority is 6' })
      return true
    })
    expect((await submit('any', [sample()], { priority: 5 })).status).toBe(200)
    expect((await submit('own', [sample({ score: 1 })], { priority: 6 })).status).toBe(429)
    await service.api.limits.set.mutate({ run: null, limits })
    await service.api.limits.clear.mutate({ run: 'own' })
    expect((await submit('own', [sample()], { priority: 6 })).status).toBe(200)
  })
})

describe('retention', () => {
  afterEach(() => service.api.retention.set.mutate(KEEP_ALL))

  it('removes texts by age in whole days, and marks them as removed', async () => {
    const old = await scored('aged', 16)
    const kept = await scored('kept', 8)
    const fresh = await scored('aged', 8)
    const whole = await backdate([old], 40)
    const shared = await backdate([kept], 41)
    const beside = await scored('aged', 8)
    await backdate([beside], 41)
    await service.api.retention.keepRun.mutate({ run: 'kept', keep: true })

    const policy = { ...KEEP_ALL, textsDays: 30 }
    const preview = await service.api.retention.preview.query({ policy })
    expect(preview).toMatchObject({
      ...{ batches: 0, samples: 0, textBatches: 2, partitions: 1 },
      skipped: { kept: 1, underWay: 0 },
    })
    const [{ bytes } = { bytes: '0' }] = await service.sql<{ bytes: string }>(
      `select pg_total_relation_size($1) as bytes`,
      [whole],
    )
    expect(preview.freedBytes).toBe(Number(bytes))
    expect(preview.reusableBytes).toBeGreaterThan(0)
    const there = await service.api.samples.get.query({ id: `${old}-0` })
    expect(there.prompt).toContain('Natalia')

    await service.api.retention.set.mutate(policy)
    const job = await ended(await service.api.retention.start.mutate())
    expect(job).toMatchObject({ state: 'done', problem: null, expected: { batches: 2 } })
    expect(job.removed).toMatchObject({ partitions: 1, textBatches: 2, freedBytes: Number(bytes) })
    const [tables] = await service.sql<{ whole: string | null; shared: string | null }>(
      'select to_regclass($1)::text as whole, to_regclass($2)::text as shared',
      [whole, shared],
    )
    expect(tables).toEqual({ whole: null, shared })

    for (const batchId of [old, beside]) {
      const gone = await service.api.samples.get.query({ id: `${batchId}-1` })
      expect(gone).toMatchObject({ prompt: '', response: '', score: 0, status: 'scored' })
      expect(gone).toHaveProperty('textsRemovedAt', expect.stringMatching(/^\d{4}-/))
      expectRefusal(await service.raw(`/api/export/samples?batch=${batchId}`), {
        ...{ status: 409, reason: 'removed_by_retention', message: 'removed by retention' },
        hint: /texts=kept/,
      })
      const again = { batchId, reward: { function: { name: 'gsm8k' } } }
      expectRefusal(await service.post('batches.rescore', JSON.stringify(again)), {
        ...{ status: 409, reason: 'removed_by_retention', message: `texts of ${batchId}` },
      })
    }
    const left = await service.raw(`/api/export/samples?batch=${old}&texts=kept`)
    expect(left.text.trim().split('\n')).toHaveLength(16)
    for (const batchId of [kept, fresh]) {
      const { prompt } = await service.api.samples.get.query({ id: `${batchId}-0` })
      expect(prompt).toContain('Natalia')
    }
  })

  it('removes whole batches and keeps the data of run pages, and never removes running batches', async () => {
    const old = await scored('curve', 16)
    const running = await service.api.batches.submit.mutate({
      run: 'curve',
      step: 2,
      samples: rollouts(8),
      reward: { model: 'never' },
    })
    await backdate([old], 50)
    await backdate([running.batchId], 50)
    const before = await service.api.batches.get.query({ batchId: old })
    const run = await service.api.runs.get.query({ name: 'curve' })

    const policy = { ...KEEP_ALL, batchesDays: 45, eventsDays: 1 }
    const preview = await service.api.retention.preview.query({ policy })
    expect(preview).toMatchObject({ batches: 1, samples: 16, skipped: { underWay: 1 } })
    await service.api.retention.set.mutate(policy)
    const job = await ended(await service.api.retention.start.mutate())
    expect(job.removed).toMatchObject({ batches: 1, samples: 16 })

    expect(await service.api.batches.get.query({ batchId: old })).toEqual(before)
    expect(await service.api.runs.get.query({ name: 'curve' })).toEqual(run)
    const [rows] = await service.sql<object>(
      `select (select count(*)::int from sample where batch_id = $1) as samples,
         (select count(*)::int from sample_group where batch_id = $1) as groups,
         (select count(*)::int from sample_text where batch_id = $2) as running`,
      [Number(old.slice(1)), Number(running.batchId.slice(1))],
    )
    expect(rows).toEqual({ samples: 0, groups: 0, running: 8 })
    for (const [path, input] of [
      ['batches.next', { batchId: old, after: null, samples: 1, waitMs: 0 }],
      ['batches.results', { batchId: old, offset: 0, limit: 10 }],
      ['samples.get', { id: `${old}-0` }],
    ] as const) {
      const search = encodeURIComponent(JSON.stringify(input))
      expectRefusal(await service.raw(`/api/trpc/${path}?input=${search}`), {
        ...{ status: 409, reason: 'removed_by_retention', message: `samples of ${old}` },
      })
    }
    const scores = `/api/export/samples?batch=${old}&columns=index,score`
    expectRefusal(await service.raw(scores), {
      ...{ status: 409, reason: 'removed_by_retention', message: `samples of ${old}` },
      hint: /texts=kept/,
    })
    expect(await service.raw(`${scores}&texts=kept`)).toMatchObject({ status: 200, text: '' })
    expect(await service.api.batches.view.query({ batchId: old })).toMatchObject({
      ...{ samples: 16, samplesRemovedAt: expect.any(String) },
    })
    const busy = await service.post('retention.deleteRun', '{"run":"curve","confirm":"curve"}')
    expectRefusal(busy, { status: 409, reason: 'run_busy', message: 'rescored: 1' })
    await service.api.batches.cancel.mutate({ batchId: running.batchId })
    const left = await waitFor('the end of its batches', () =>
      service.api.retention.deleteRun.mutate({ run: 'curve', confirm: 'curve' }),
    )
    expect(await ended(left)).toMatchObject({ state: 'done' })
  })

  it('deletes a run by its name, resumes after an interruption, and frees the name', async () => {
    const one = await scored('doomed', 64)
    const two = await scored('doomed', 8, { step: 2 })
    const { batchId: rescored } = await service.api.batches.rescore.mutate({
      batchId: two,
      reward: { function: { name: 'gsm8k' } },
    })
    await service.api.batches.wait.query({ batchId: rescored, waitMs: 30_000 })
    const wrong = await service.post('retention.deleteRun', '{"run":"doomed","confirm":"dome"}')
    expectRefusal(wrong, { status: 400, reason: 'not_confirmed', message: '"dome"' })
    await waitFor('roll-ups', async () => {
      const [row] = await service.sql<{ n: number }>(
        `select count(*)::int as n from batch where not rolled_up and id = $1`,
        [Number(rescored.slice(1))],
      )
      return row!.n === 0
    })
    await service.api.annotations.add.mutate({ samples: [`${one}-0`], label: 'x' })
    await service.sql(
      `with k as (insert into score_key values ('doomed', $1, 0, ''))
       insert into attempt (batch_id, idx, attempt, worker_id, started_at, queue_ms, backoff_ms, service_ms, outcome)
       values ($1, 0, 1, 1, now(), 0, 0, 0, 'ok')`,
      [Number(one.slice(1))],
    )
    const preview = await service.api.retention.preview.query({ run: 'doomed' })
    expect(preview).toMatchObject({ batches: 3, samples: 80 })
    const { key } = await create('stays', 'trainer')

    const job = await service.api.retention.deleteRun.mutate({ run: 'doomed', confirm: 'doomed' })
    // The quick run checks the deletion only; a restart takes as long as all other tests of retention.
    if (FULL) {
      await service.kill9('server')
      await service.restart()
    }
    expect(await service.apiWith(bearer(key)).session.get.query()).toMatchObject({
      ...{ name: 'stays', role: 'trainer' },
    })
    expect(await ended(job)).toMatchObject({ kind: 'run', state: 'done', removed: { batches: 3 } })
    expectRefusal(await service.raw(`/api/trpc/batches.get?input={"batchId":"${one}"}`), {
      ...{ status: 404, reason: 'batch_not_found', message: one },
    })
    const left = await service.sql(
      `select 1 from sample where batch_id = any($1) union all select 1 from sample_text where batch_id = any($1)
       union all select 1 from sample_group where batch_id = any($1) union all select 1 from batch_roll_up where batch_id = any($1)
       union all select 1 from sample_annotation where batch_id = any($1) union all select 1 from attempt where batch_id = any($1)
       union all select 1 from score_key where batch_id = any($1)
       union all select 1 from run where name = 'doomed' union all select 1 from removal`,
      [[one, two, rescored].map((id) => Number(id.slice(1)))],
    )
    expect(left).toEqual([])
    await scored('doomed', 8)
    const { items } = await service.api.audit.list.query({ action: 'retention.removed' })
    expect(items[0]).toMatchObject({ action: 'retention.removed', target: 'doomed' })
  })

  it('lets a deleted run reappear if its trainer continues', async () => {
    await scored('again', 8)
    await ended(await service.api.retention.deleteRun.mutate({ run: 'again', confirm: 'again' }))
    const batchId = await scored('again', 8)
    expect(await service.api.batches.get.query({ batchId })).toMatchObject({ run: 'again' })
  })
})

it('about.get reports the database and the settings', async () => {
  // Only the largest tables are listed, so a large text is stored first.
  const samples = [sample({ prompt: padding(1 << 20), score: 1 })]
  await service.api.batches.submit.mutate({ run: 'about', step: 1, samples })
  const about = await service.api.about.get.query()
  expect(about).toMatchObject({ embedded: true, databaseBytes: expect.any(Number) })
  expect(about.tables.map(({ name }) => name)).toContain('sample_text')
  expect(about.settings).toContainEqual({
    ...{ name: 'REWARDOPS_WORKERS', value: '1', isDefault: false },
  })
  expect(about.settings).toContainEqual({
    ...{ name: 'REWARDOPS_API_KEYS', value: 'unset', isDefault: true },
  })
})
