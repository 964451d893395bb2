import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { copyClusterTemplate } from '../../testkit/service/cluster-template.ts'
import { selfSignedCertificate } from '../../testkit/service/self-signed.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { readConnectionUrl } from './connection-url.ts'
import { Database } from './database.ts'
import { accountForPostgres } from './postgres/account.ts'
import { openDatabase } from './postgres/connect.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './postgres/embedded.ts'
import { connectSession } from './session.ts'

/** Tests the values of sslmode against a Postgres whose certificate no CA has signed. */

const log = createLogger('silent', 'test')
const dir = mkdtempSync(join(tmpdir(), 'ssl-mode-'))
const file = (name: string) => join(dir, name)
let postgres: EmbeddedPostgres
let admin: Database
let port: number

/** Writes a file that belongs to the account of Postgres, because Postgres refuses keys that others can read. */
function write(name: string, text: string): void {
  writeFileSync(file(name), text)
  chmodSync(file(name), 0o600)
  const account = accountForPostgres(join(dir, 'data/postgres'))
  if (account !== null) chownSync(file(name), account.uid, account.gid)
}

beforeAll(async () => {
  const free = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => free.once('listening', resolve))
  port = (free.address() as AddressInfo).port
  await new Promise((resolve) => free.close(resolve))
  chmodSync(dir, 0o755)
  copyClusterTemplate(join(dir, 'data'))
  const server = selfSignedCertificate()
  const client = selfSignedCertificate()
  write('server.key', server.key)
  write('server.crt', server.cert)
  write('client.key', client.key)
  write('client.crt', client.cert)
  write('hba.conf', 'local all all trust\nhost all all all trust\n')
  postgres = await startEmbeddedPostgres({
    dataDir: join(dir, 'data'),
    log,
    settings: {
      listen_addresses: '127.0.0.1',
      port: String(port),
      unix_socket_permissions: '0777',
      ssl_cert_file: file('server.crt'),
      ssl_key_file: file('server.key'),
      ssl_ca_file: file('client.crt'),
      hba_file: file('hba.conf'),
      fsync: 'off',
    },
  })
  const url = new URL(postgres.adminUrl('rewardops'))
  url.port = String(port)
  admin = new Database(url.href, log, { max: 1, name: 'admin' })
  await serve({})
})
afterAll(async () => {
  await admin?.close()
  await postgres?.stop()
  rmSync(dir, { recursive: true, force: true })
})

async function serve({ ssl = 'on', hba = 'host all all all trust' }): Promise<void> {
  write('hba.conf', `local all all trust\n${hba}\n`)
  await admin.adhoc(`alter system set ssl = ${ssl}`)
  await admin.adhoc('select pg_reload_conf()')
  const refusesTls = hba.startsWith('hostnossl') || hba.includes('clientcert')
  const expected = {
    disable: hba.startsWith('hostssl') ? '28000' : 'open',
    require: ssl === 'off' ? 'no TLS' : refusesTls ? '28000' : 'open',
  }
  await waitFor('the new configuration', async () => {
    const found = { disable: await answerTo('disable'), require: await answerTo('require') }
    return found.disable === expected.disable && found.require === expected.require
  })
}

async function answerTo(sslmode: string): Promise<string> {
  try {
    await (await connectSession(urlOf({ sslmode }))).end()
    return 'open'
  } catch (error) {
    return (error as { code?: string }).code ?? 'no TLS'
  }
}

function urlOf(params: Record<string, string>, host = '127.0.0.1'): string {
  return `postgresql://rewardops@${host}:${port}/rewardops?${new URLSearchParams(params)}`
}

async function encryptionOf(url: string): Promise<string> {
  const sql = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'
  const client = await connectSession(url)
  const { rows } = await client.query<{ ssl: boolean }>(sql)
  await client.end()
  const pool = new Database(url, log, { max: 2, name: 'test' })
  try {
    const pooled = await Promise.all([1, 2].map(() => pool.adhoc<{ ssl: boolean }>(sql)))
    for (const [row] of pooled) expect(row).toEqual(rows[0])
  } finally {
    await pool.close()
  }
  return rows[0]?.ssl ? 'tls' : 'plain'
}

const root = () => ({ sslrootcert: file('server.crt') })
const otherRoot = () => ({ sslrootcert: file('client.crt') })

describe('a server with TLS and plain text', () => {
  it.each([
    ['disable', 'plain'],
    ['allow', 'plain'],
    ['prefer', 'tls'],
    ['require', 'tls'],
  ])('%s: %s, unverified', async (sslmode, encryption) => {
    expect(await encryptionOf(urlOf({ sslmode }))).toBe(encryption)
  })

  it('uses TLS by default', async () => {
    expect(await encryptionOf(urlOf({}))).toBe('tls')
    expect(await encryptionOf(urlOf({ ssl: 'true' }))).toBe('tls')
  })

  it('require with a root certificate verifies the chain but not the name', async () => {
    expect(await encryptionOf(urlOf({ sslmode: 'require', ...root() }))).toBe('tls')
    const wrong = encryptionOf(urlOf({ sslmode: 'require', ...otherRoot() }))
    await expect(wrong).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  })

  it('verify-ca verifies the chain but not the name', async () => {
    expect(await encryptionOf(urlOf({ sslmode: 'verify-ca', ...root() }))).toBe('tls')
    const wrong = encryptionOf(urlOf({ sslmode: 'verify-ca', ...otherRoot() }))
    await expect(wrong).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  })

  it('verify-full verifies the name too', async () => {
    const full = { sslmode: 'verify-full', ...root() }
    expect(await encryptionOf(urlOf(full, 'localhost'))).toBe('tls')
    await expect(encryptionOf(urlOf(full))).rejects.toMatchObject({
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    })
    const unsigned = encryptionOf(urlOf({ sslmode: 'verify-full' }, 'localhost'))
    await expect(unsigned).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  })

  it('a start with an untrusted certificate names the setting to change', async () => {
    const start = openDatabase({
      databaseUrl: urlOf({ sslmode: 'verify-full' }, 'localhost'),
      dataDir: dir,
      log,
      waitMs: 0,
    })
    await expect(start).rejects.toThrow(
      /self-signed certificate.* Set sslrootcert .* sslmode=require/,
    )
  })
})

describe('a server with TLS only', () => {
  beforeAll(() => serve({ hba: 'hostssl all all all trust' }))

  it('allow falls back to TLS, disable does not', async () => {
    expect(await encryptionOf(urlOf({ sslmode: 'allow' }))).toBe('tls')
    expect(await encryptionOf(urlOf({ sslmode: 'prefer' }))).toBe('tls')
    await expect(encryptionOf(urlOf({ sslmode: 'disable' }))).rejects.toMatchObject({
      code: '28000',
    })
  })
})

describe('a server without TLS', () => {
  beforeAll(() => serve({ ssl: 'off' }))

  it('prefer falls back to plain text, require does not', async () => {
    expect(await encryptionOf(urlOf({ sslmode: 'prefer' }))).toBe('plain')
    expect(await encryptionOf(urlOf({ sslmode: 'allow' }))).toBe('plain')
    await expect(encryptionOf(urlOf({ sslmode: 'require' }))).rejects.toThrow(
      /does not support SSL/,
    )
  })
})

describe('a server without TLS that fails at startup', () => {
  // If a failed connection changed the encryption of the others, they would report the lack of TLS instead of their own
  // error.
  it('reports its own error, however many connections fail at the same time', async () => {
    const fatal = Buffer.from('SFATAL\0VFATAL\0C53100\0Mcould not write init file\0\0')
    let answers = 0
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (data) => {
        const isSslRequest = data.length === 8 && data.readInt32BE(4) === 80_877_103
        const delayMs = answers++ % 7
        if (isSslRequest) return setTimeout(() => socket.write('N'), delayMs)
        const head = Buffer.from('E0000')
        head.writeInt32BE(4 + fatal.length, 1)
        // The delays differ, so that connections with and without a TLS request overlap.
        return setTimeout(() => socket.end(Buffer.concat([head, fatal])), delayMs)
      })
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const url = `postgresql://u@127.0.0.1:${(server.address() as AddressInfo).port}/d?sslmode=prefer`
    const pool = new Database(url, log, { max: 3, name: 'test' })
    try {
      const codes = new Set<string | undefined>()
      const caller = async () => {
        for (let call = 0; call < 20; call++) {
          await pool.adhoc('select 1').catch((error) => codes.add(error.code))
        }
      }
      await Promise.all(Array.from({ length: 16 }, caller))
      expect([...codes]).toEqual(['53100'])
    } finally {
      await pool.close()
      server.close()
    }
  })
})

describe('a server whose rules refuse TLS', () => {
  beforeAll(() => serve({ hba: 'hostnossl all all all trust' }))

  it('prefer falls back to plain text, require does not', async () => {
    expect(await encryptionOf(urlOf({ sslmode: 'prefer' }))).toBe('plain')
    await expect(encryptionOf(urlOf({ sslmode: 'require' }))).rejects.toMatchObject({
      code: '28000',
    })
  })
})

describe('a server that requires a client certificate', () => {
  beforeAll(() => serve({ hba: 'hostssl all all all trust clientcert=verify-ca' }))

  it('accepts the certificate of sslcert and sslkey', async () => {
    const own = { sslcert: file('client.crt'), sslkey: file('client.key') }
    expect(await encryptionOf(urlOf({ sslmode: 'require', ...own }))).toBe('tls')
    await expect(encryptionOf(urlOf({ sslmode: 'require' }))).rejects.toMatchObject({
      code: '28000',
    })
  })
})

describe('wrong parameters are refused with an error that names them', () => {
  it.each<[Record<string, string>, RegExp]>([
    [
      { sslmode: 'full' },
      /sslmode=full is unknown\. Use one of disable, allow, prefer, require, verify-ca, verify-full\.$/,
    ],
    [{ sslmode: 'no-verify' }, /sslmode=require encrypts without verifying/],
    [{ ssl: 'maybe' }, /ssl=maybe is unknown/],
    [{ sslmode: 'verify-ca' }, /verify-ca needs sslrootcert/],
    [
      { sslmode: 'require', sslrootcert: '/nowhere.crt' },
      /sslrootcert=\/nowhere\.crt cannot be read \(ENOENT\)/,
    ],
    [{ sslmode: 'require', sslrootcert: 'system' }, /sslrootcert=system needs sslmode=verify-full/],
    [{ sslcert: '/a.crt' }, /sslcert and sslkey are given together/],
    [{ sslnegotiation: 'direct' }, /sslnegotiation=direct needs sslmode=require/],
    [{ ssl_min_protocol_version: 'TLSv9' }, /TLSv9 is unknown/],
    [{ sslcrldir: '/crl' }, /sslcrldir is not supported/],
  ])('%o', (params, message) => {
    expect(() => readConnectionUrl(urlOf(params))).toThrow(message)
  })

  it('a socket is never encrypted', () => {
    const { attempts } = readConnectionUrl('postgresql:///db?host=/tmp&sslmode=require')
    expect(attempts).toEqual(['plain'])
  })
})
