import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { SCHEMA_VERSION, SECRETS_SINCE } from './schema-version.ts'
import { SecretBox, secretKey } from './secret-box.ts'
import { openSecrets, sealStored } from './secret-keys.ts'
import { activeServers } from './sql/servers.ts'
import { addWebhook, changeWebhook, webhookRows, webhookTarget } from './sql/webhooks.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
const OLD = '0a'.repeat(32)
const NEW = Buffer.from('b1'.repeat(32), 'hex').toString('base64')

let db: Database
let folder: string
beforeAll(() => {
  db = new Database(database.url, log, { max: 4, name: 'test' })
})
afterAll(() => db.close())
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-secrets-'))
  await db.adhoc('truncate server, webhook, process, setting')
  await db.adhoc('update schema_version set compatible_from = $1', [SCHEMA_VERSION - 1])
  db.secrets = new SecretBox([])
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const open = (value: string | null, mayCreate = true, lost: string | null = null) =>
  openSecrets(db, { value, file: join(folder, 'data', 'secrets.key'), lost }, { mayCreate, log })

const insertServer = (name: string, apiKey: string | null) =>
  db.adhoc(
    `insert into server (name, url, engine, kind, model, api_key, state)
     values ($1, 'http://127.0.0.1:1', 'vllm', 'discriminative', 'rm', $2, 'ready')`,
    [name, apiKey],
  )
const keysOf = async () => (await activeServers(db)).map(({ apiKey }) => apiKey)
const stored = async () =>
  (
    await db.adhoc<{ text: string | null }>(
      'select api_key as text from server union all select url from webhook union all select secret from webhook',
    )
  ).map(({ text }) => text)
const runEarlier = () =>
  db.adhoc(
    `insert into process (host, pid, local, state, role, version) values ('elsewhere', 1, false, 'alive', 'worker', $1)`,
    [SECRETS_SINCE - 1],
  )
const webhook = {
  ...{ name: 'chat', url: 'https://hooks.example/T0/secret-path', secret: 'signing-secret' },
  ...{ severities: [], monitors: [], runs: [], fleet: true, enabled: true },
}

describe('the secrets key', () => {
  it('is created at the first start, readable only by this user, and read at the next', async () => {
    const first = await open(null)
    const file = join(folder, 'data', 'secrets.key')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const text = readFileSync(file, 'utf8')
    expect(text).toMatch(/^[0-9a-f]{64}\n$/)
    expect((await open(null)).firstId).toBe(first.firstId)
    expect((await open(text.trim())).firstId).toBe(first.firstId)
    expect(readFileSync(file, 'utf8')).toBe(text)
  })

  it('must be the same in every process of a database, and a missing key is not created', async () => {
    const { firstId } = await open(OLD)
    await expect(open(NEW)).rejects.toThrow(`encrypted with the key ${firstId}`)
    await expect(open(null)).rejects.toThrow(
      /secrets\.key does not exist.*REWARDOPS_SECRETS_KEY_FILE/,
    )
    await expect(open(null, false)).rejects.toThrow(/does not exist/)
    expect(existsSync(join(folder, 'data'))).toBe(false)
    expect((await open(OLD, false)).firstId).toBe(firstId)
  })

  it('is replaced if its id is given as that of a lost key, once and without a change of any secret', async () => {
    const file = join(folder, 'data', 'secrets.key')
    db.secrets = await open(OLD)
    const lost = db.secrets.firstId as string
    await addWebhook(db, webhook, 'ops')
    const before = await stored()

    for (const other of [null, '00000000']) {
      await expect(open(null, true, other)).rejects.toThrow(`REWARDOPS_LOST_SECRETS_KEY=${lost}`)
    }
    const worker = await open(null, false, lost).catch((error: Error) => error.message)
    expect(worker).toMatch(/does not exist/)
    expect(worker).not.toContain('REWARDOPS_LOST_SECRETS_KEY')
    // The server still has the key that is declared lost, so the key stays in use.
    expect((await open(OLD, true, lost)).firstId).toBe(lost)
    await expect(open(NEW, true, null)).rejects.toThrow(`REWARDOPS_LOST_SECRETS_KEY=${lost}`)
    expect(existsSync(file)).toBe(false)

    db.secrets = await open(null, true, lost)
    const next = db.secrets.firstId as string
    expect(next).not.toBe(lost)
    const warn = vi.spyOn(log, 'warn')
    const reported = new Set<string>()
    for (let rounds = 0; rounds < 2; rounds++) await sealStored(db, log, reported)
    // The URL and the secret of the webhook are each reported once.
    expect(warn).toHaveBeenCalledTimes(2)
    expect(await stored()).toEqual(before)
    expect((await webhookRows(db))[0]!.url).toBeNull()
    await expect(open(OLD)).rejects.toThrow(`encrypted with the key ${next}`)

    // A server that still has the lost key does not take the replacement back.
    db.secrets = new SecretBox([secretKey(Buffer.from(OLD, 'hex'))])
    await sealStored(db, log)
    await expect(open(OLD)).rejects.toThrow(`encrypted with the key ${next}`)

    const created = readFileSync(file, 'utf8')
    rmSync(file)
    await expect(open(null, true, lost)).rejects.toThrow(`REWARDOPS_LOST_SECRETS_KEY=${next}`)
    // The lost key is found again.
    db.secrets = await open(`${created}${OLD}`)
    expect((await webhookRows(db))[0]!.url).toBe(webhook.url)
  })

  it('is stored once if two servers start after it was lost', async () => {
    const { firstId: lost } = await open(OLD)
    const folders = ['a', 'b'].map((name) => join(folder, name, 'secrets.key'))
    const started = await Promise.allSettled(
      folders.map((file) => openSecrets(db, { value: null, file, lost }, { mayCreate: true, log })),
    )
    const boxes = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    expect(boxes).toHaveLength(1)
    const kept = folders.filter((file) => existsSync(file))
    expect(kept).toHaveLength(1)
    expect((await open(readFileSync(kept[0] as string, 'utf8'))).firstId).toBe(boxes[0]?.firstId)
  })

  it('is refused if it is malformed, and the error does not contain it', async () => {
    for (const value of ['short', `${OLD},${OLD}ff`]) {
      const failed = await open(value).catch((error: Error) => error.message)
      expect(failed).toMatch(/secrets key \d is not 32 bytes/)
      expect(failed).not.toContain(value)
    }
    const file = join(folder, 'empty')
    writeFileSync(file, '\n')
    chmodSync(file, 0o600)
    const empty = openSecrets(db, { value: null, file, lost: null }, { mayCreate: true, log })
    await expect(empty).rejects.toThrow('is empty')
  })
})

describe('secrets', () => {
  it('are encrypted in the database and read back, each with its own nonce', async () => {
    db.secrets = await open(OLD)
    const id = await addWebhook(db, webhook, 'ops')
    await addWebhook(db, { ...webhook, name: 'again' }, 'ops')
    const texts = (await stored()) as string[]
    expect(new Set(texts).size).toBe(4)
    for (const text of texts) {
      expect(text).toMatch(/^sealed:v1:[0-9a-f]{8}:/)
      expect(text).not.toMatch(/secret/)
    }
    expect(await webhookTarget(db, id!)).toEqual({
      name: 'chat',
      target: { url: webhook.url, secret: webhook.secret },
    })
    await changeWebhook(db, id!, { secret: null, url: 'https://hooks.example/other' })
    expect(await webhookTarget(db, id!)).toMatchObject({
      target: { url: 'https://hooks.example/other', secret: null },
    })
    expect((await webhookRows(db)).map(({ signed }) => signed)).toEqual([true, false])
  })

  it('are refused in another field and after a change', async () => {
    const box = await open(OLD)
    const sealed = (await box.seal(db, 'webhook.secret', 'text')) as string
    expect(() => box.open('server.api_key', sealed)).toThrow('damaged')
    // The last character may hold unused bits, so another one is changed.
    const changed = sealed.at(-5) === 'A' ? 'B' : 'A'
    expect(() =>
      box.open('webhook.secret', sealed.slice(0, -5) + changed + sealed.slice(-4)),
    ).toThrow('damaged')
    expect(() =>
      new SecretBox([secretKey(Buffer.alloc(32))]).open('webhook.secret', sealed),
    ).toThrow('which this process lacks')
  })

  it('that cannot be read make only their own server and webhook unusable', async () => {
    db.secrets = await open(`${OLD}\n${NEW}`)
    for (const name of ['fine', 'damaged', 'other key']) {
      const key = name === 'other key' ? secretKey(Buffer.alloc(32)) : null
      const box = key === null ? db.secrets : new SecretBox([key])
      const sealed = await box.seal(db, 'server.api_key', `sk-${name}`)
      await insertServer(name, name === 'damaged' ? sealed.slice(0, 30) : sealed)
    }
    expect(await activeServers(db)).toMatchObject([
      { name: 'fine', apiKey: 'sk-fine', state: 'ready', keyProblem: null },
      {
        name: 'damaged',
        apiKey: null,
        state: 'unreachable',
        stateCause: expect.stringContaining('is damaged'),
      },
      {
        name: 'other key',
        apiKey: null,
        state: 'unreachable',
        stateCause: expect.stringContaining('lacks'),
      },
    ])

    const broken = (await addWebhook(db, webhook, 'ops')) as number
    const whole = (await addWebhook(db, { ...webhook, name: 'whole' }, 'ops')) as number
    await db.adhoc('update webhook set secret = url where id = $1', [broken])
    expect((await webhookRows(db)).map(({ url }) => url)).toEqual([webhook.url, webhook.url])
    expect(await webhookTarget(db, broken)).toMatchObject({
      target: { problem: expect.stringContaining('damaged') },
    })
    await db.adhoc('update webhook set url = secret || $2 where id = $1', [broken, 'x'])
    expect((await webhookRows(db)).map(({ url }) => url)).toEqual([null, webhook.url])
    expect(await webhookTarget(db, whole)).toMatchObject({ target: { url: webhook.url } })

    const before = await stored()
    db.secrets = await open(`${NEW}\n${OLD}`)
    await sealStored(db, log)
    const left = (await stored()).filter((text) => before.includes(text))
    expect(left).toHaveLength(4)
    expect(await keysOf()).toEqual(['sk-fine', null, null])
  })

  it('of an earlier version are encrypted once no process of that version runs', async () => {
    await insertServer('rm', 'sk-plain')
    await insertServer('open', null)
    await addWebhook(db, webhook, 'ops')
    db.secrets = await open(OLD)
    await runEarlier()
    await sealStored(db, log)
    expect(await stored()).toEqual(['sk-plain', null, webhook.url, webhook.secret])
    // A secret stored while an earlier version runs must be readable to that version too.
    await changeWebhook(db, (await webhookRows(db))[0]!.id, { secret: 'new-secret' })
    expect(await stored()).toContain('new-secret')
    expect(await keysOf()).toEqual(['sk-plain', null])

    await db.adhoc('truncate process')
    await sealStored(db, log)
    expect((await stored()).filter((text) => text?.startsWith('sealed:v1:'))).toHaveLength(3)
    expect(await keysOf()).toEqual(['sk-plain', null])
    const [row] = await db.adhoc<{ from: number }>(
      'select max(compatible_from) as from from schema_version',
    )
    expect(row).toEqual({ from: SECRETS_SINCE })
  })

  it('are encrypted with a new key, while processes with both keys run', async () => {
    db.secrets = await open(OLD)
    await addWebhook(db, webhook, 'ops')
    const before = await stored()
    const second = await open(`${OLD}\n${NEW}`)
    db.secrets = await open(`${NEW}\n${OLD}`)
    await sealStored(db, log)
    expect((await stored()).filter((text) => before.includes(text))).toEqual([])
    expect((await webhookRows(db))[0]!.url).toBe(webhook.url)
    db.secrets = second
    expect((await webhookRows(db))[0]!.url).toBe(webhook.url)
    await expect(open(OLD)).rejects.toThrow('encrypted with the key')
    expect((await open(NEW)).firstId).not.toBe(second.firstId)
  })
})
