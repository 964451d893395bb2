import { readFileSync } from 'node:fs'
import type { ConnectionOptions, SecureVersion } from 'node:tls'
import { DatabaseStartError } from './postgres/start-error.ts'

/** The values of `sslmode`, weakest first, with libpq's meanings. */
export const SSL_MODES = [
  'disable',
  'allow',
  'prefer',
  'require',
  'verify-ca',
  'verify-full',
] as const
export type SslMode = (typeof SSL_MODES)[number]

export type Encryption = 'tls' | 'plain'

export interface ConnectionUrl {
  /** The connection string without its SSL parameters. */
  url: string
  sslMode: SslMode
  /** Encryptions to try, best first. The second is tried if the server refuses the first. */
  attempts: readonly [Encryption, ...Encryption[]]
  tls: ConnectionOptions
  /** With `direct` (Postgres 17), TLS begins immediately, without first asking the server whether it supports TLS. */
  negotiation: 'postgres' | 'direct'
}

/** SSL parameters, which are read here because node-postgres interprets some of them differently from libpq. */
const READ_HERE = [
  'sslmode',
  'ssl',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'sslpassword',
  'sslcrl',
  'ssl_min_protocol_version',
  'ssl_max_protocol_version',
  'sslnegotiation',
  'uselibpqcompat',
]
/** libpq parameters that would weaken the connection if they were ignored. */
const REFUSED = ['sslcrldir', 'sslcertmode', 'requiressl']
const PROTOCOLS: readonly SecureVersion[] = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']
const ATTEMPTS: Record<SslMode, ConnectionUrl['attempts']> = {
  disable: ['plain'],
  allow: ['plain', 'tls'],
  prefer: ['tls', 'plain'],
  require: ['tls'],
  'verify-ca': ['tls'],
  'verify-full': ['tls'],
}

/**
 * Reads a connection string and the certificate files it names.
 * @throws DatabaseStartError `bad_url` for a malformed URL, an unknown value or an unreadable file
 */
export function readConnectionUrl(text: string): ConnectionUrl {
  const url = URL.parse(text)
  if (!url || !/^postgres(ql)?:$/.test(url.protocol)) {
    throw bad('not a connection string of the form postgresql://user:password@host:5432/database')
  }
  const params = url.searchParams
  const isSocket = /^(\/|%2f)/i.test(params.get('host') ?? url.hostname)
  for (const name of REFUSED) {
    if (params.has(name)) throw bad(`wrong: ${name} is not supported. Remove it.`)
  }
  const negotiation = oneOf('sslnegotiation', params.get('sslnegotiation') ?? 'postgres', [
    'postgres',
    'direct',
  ] as const)
  const rootCert = params.get('sslrootcert')
  const sslMode = modeOf(params, rootCert)
  if (rootCert === 'system' && sslMode !== 'verify-full') {
    throw bad('wrong: sslrootcert=system needs sslmode=verify-full.')
  }
  if (sslMode === 'verify-ca' && rootCert === null) {
    throw bad(
      'wrong: sslmode=verify-ca needs sslrootcert, the file of the CA that signed the certificate of the server. ' +
        'With a certificate of a public CA use sslmode=verify-full.',
    )
  }
  if (negotiation === 'direct' && ATTEMPTS[sslMode].includes('plain') && !isSocket) {
    throw bad('wrong: sslnegotiation=direct needs sslmode=require, verify-ca or verify-full.')
  }
  const tls = isSocket || sslMode === 'disable' ? {} : tlsOf(params, sslMode, rootCert)
  for (const name of READ_HERE) params.delete(name)
  return {
    url: url.href,
    sslMode,
    attempts: isSocket ? ['plain'] : ATTEMPTS[sslMode],
    tls,
    negotiation: isSocket ? 'postgres' : negotiation,
  }
}

function modeOf(params: URLSearchParams, rootCert: string | null): SslMode {
  const mode = params.get('sslmode')
  if (mode !== null) {
    return oneOf(
      'sslmode',
      mode,
      SSL_MODES,
      mode === 'no-verify' ? ' sslmode=require encrypts without verifying.' : '',
    )
  }
  // libpq accepts `ssl=true` for JDBC's connection strings; node-postgres accepts the other values.
  const ssl = params.get('ssl')
  if (ssl === 'true' || ssl === '1') return 'require'
  if (ssl === 'false' || ssl === '0') return 'disable'
  if (ssl !== null)
    throw bad(`wrong: ssl=${ssl} is unknown. Use sslmode, one of ${list(SSL_MODES)}.`)
  return rootCert === 'system' ? 'verify-full' : 'prefer'
}

function tlsOf(params: URLSearchParams, mode: SslMode, rootCert: string | null): ConnectionOptions {
  const ca = rootCert === null || rootCert === 'system' ? undefined : read('sslrootcert', rootCert)
  const isVerified = ca !== undefined || mode === 'verify-full'
  const cert = params.get('sslcert')
  const key = params.get('sslkey')
  if ((cert === null) !== (key === null)) {
    throw bad('wrong: sslcert and sslkey are given together or not at all.')
  }
  const passphrase = params.get('sslpassword')
  const crl = params.get('sslcrl')
  const [min, max] = (['min', 'max'] as const).map((end) => {
    const name = `ssl_${end}_protocol_version`
    const value = params.get(name)
    return value === null || value === '' ? undefined : oneOf(name, value, PROTOCOLS)
  })
  return {
    rejectUnauthorized: isVerified,
    ...(isVerified && mode !== 'verify-full' ? { checkServerIdentity: () => undefined } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === null ? {} : { cert: read('sslcert', cert) }),
    ...(key === null ? {} : { key: read('sslkey', key) }),
    ...(passphrase === null ? {} : { passphrase }),
    ...(crl === null ? {} : { crl: read('sslcrl', crl) }),
    ...(min === undefined ? {} : { minVersion: min }),
    ...(max === undefined ? {} : { maxVersion: max }),
  }
}

function read(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw bad(`wrong: ${name}=${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
}

function oneOf<T extends string>(name: string, value: string, known: readonly T[], more = ''): T {
  const found = known.find((one) => one === value)
  if (found === undefined) {
    throw bad(`wrong: ${name}=${value} is unknown. Use one of ${list(known)}.${more}`)
  }
  return found
}

const list = (values: readonly string[]) => values.join(', ')

function bad(why: string): DatabaseStartError {
  return new DatabaseStartError('bad_url', `DATABASE_URL is ${why}`)
}
