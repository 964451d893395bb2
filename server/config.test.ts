import { expect, test } from 'vitest'
import { loadConfig } from './config.ts'

const env = { PATH: '/bin', NODE_ENV: 'test' } as const

test('functions see only the listed variables of the service’s environment', () => {
  const { functions } = loadConfig({
    ...env,
    DATABASE_URL: 'postgresql://user:secret@host/db',
    REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB',
    REWARDOPS_DATA_DIR: '/data',
    REWARDOPS_FUNCTION_ENV: 'OPENAI_API_KEY, UNSET',
    OPENAI_API_KEY: 'theirs',
    AWS_SECRET_ACCESS_KEY: 'not named',
  })
  expect(functions).toMatchObject({
    versionsDir: '/data/functions',
    settings: {
      env: { PATH: '/bin', NODE_ENV: 'test', OPENAI_API_KEY: 'theirs' },
      memoryBytes: 2 ** 30,
    },
  })
  expect(Object.keys(functions.settings.env)).toEqual(['PATH', 'NODE_ENV', 'OPENAI_API_KEY'])
  expect(functions.maxProcesses).toBeGreaterThanOrEqual(2)
})

test.each(['DATABASE_URL', 'REWARDOPS_API_KEYS', 'PGPASSWORD'])(
  'functions cannot read %s',
  (name) => {
    expect(() => loadConfig({ ...env, REWARDOPS_FUNCTION_ENV: `MINE,${name}` })).toThrow(name)
  },
)

test.each<[what: string, settings: Record<string, string>, message: RegExp]>([
  ['listening on 0.0.0.0 without keys', { HOST: '0.0.0.0' }, /HOST=0\.0\.0\.0.*REWARDOPS_API_KEYS/],
  ['listening on :: without keys', { HOST: '::' }, /HOST=::.*REWARDOPS_API_KEYS/],
  ['a number in words', { REWARDOPS_WORKERS: 'two' }, /REWARDOPS_WORKERS: /],
  ['a port above 65,535', { PORT: '70000' }, /PORT: /],
  ['an unknown log level', { LOG_LEVEL: 'loud' }, /LOG_LEVEL: /],
  ['a short key', { REWARDOPS_API_KEYS: 'abc' }, /REWARDOPS_API_KEYS: key 1 has 3 characters/],
  [
    'a key that can be guessed',
    { REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB,my-secret-api-key-1234567890' },
    /REWARDOPS_API_KEYS: key 2 has about \d+ random bits.*openssl rand/,
  ],
])('%s is refused', (_, settings, message) => {
  expect(() => loadConfig({ ...env, ...settings })).toThrow(message)
})

test('sandboxes have names and addresses, with or without /run_code', () => {
  const namedBy = (REWARDOPS_SANDBOXES: string) =>
    loadConfig({ ...env, REWARDOPS_SANDBOXES }).sandbox.named
  expect(namedBy('big=http://10.0.0.5:8080/run_code, small = https://box/')).toEqual({
    big: 'http://10.0.0.5:8080',
    small: 'https://box',
  })
  const wrong = [
    'http://host',
    'a=ftp://host',
    'a=http://user:secret@host',
    'local=http://host',
    'a=http://b,a=http://c',
  ]
  for (const text of wrong) expect(() => namedBy(text), text).toThrow('REWARDOPS_SANDBOXES')
})

test("libpq's SSL variables apply if the connection string does not set them", () => {
  const urlOf = (DATABASE_URL: string, more: Record<string, string>) =>
    loadConfig({ ...env, ...more, DATABASE_URL }).databaseUrl
  const url = 'postgresql://user:secret@host/db'
  expect(urlOf(url, {})).toBe(url)
  expect(urlOf(url, { PGSSLMODE: 'verify-full', PGSSLROOTCERT: '/ca.crt' })).toBe(
    `${url}?sslmode=verify-full&sslrootcert=%2Fca.crt`,
  )
  expect(urlOf(`${url}?sslmode=require`, { PGSSLMODE: 'disable' })).toBe(`${url}?sslmode=require`)
  expect(urlOf(`${url}?ssl=true`, { PGSSLMODE: 'disable' })).toBe(`${url}?ssl=true`)
})
