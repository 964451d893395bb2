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

test('traces are exported only to a given endpoint, and sampled by default', () => {
  const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }
  const of = (settings: Record<string, string>) => loadConfig({ ...env, ...settings }).tracing
  expect(of({})).toBeNull()
  expect(of({ ...collector, OTEL_SDK_DISABLED: 'true' })).toBeNull()
  expect(of({ ...collector, OTEL_TRACES_EXPORTER: 'none' })).toBeNull()
  expect(of(collector)).toEqual({
    protocol: 'http/protobuf',
    sampler: 'parentbased_traceidratio',
    ratio: 0.01,
  })
  expect(
    of({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector/v1/traces',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_TRACES_SAMPLER: 'always_on',
    }),
  ).toMatchObject({ protocol: 'http/json', sampler: 'always_on' })
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
  ['a prefix with a slash at the end', { REWARDOPS_BASE_PATH: '/a/' }, /REWARDOPS_BASE_PATH: /],
  ['a port above 65,535', { PORT: '70000' }, /PORT: /],
  [
    'gRPC for traces',
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
    /OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported; use one of http\/protobuf, http\/json/,
  ],
  [
    'a sampler with a ratio above 1',
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318', OTEL_TRACES_SAMPLER_ARG: '5' },
    /OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1/,
  ],
  ['an unknown log level', { LOG_LEVEL: 'loud' }, /LOG_LEVEL: /],
  ['a short key', { REWARDOPS_API_KEYS: 'abc' }, /REWARDOPS_API_KEYS: key 1 has 3 characters/],
  [
    'a key that can be guessed',
    { REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB,my-secret-api-key-1234567890' },
    /REWARDOPS_API_KEYS: key 2 has about \d+ bits of entropy.*openssl rand/,
  ],
  [
    'a key with an unknown role',
    { REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB,reader:n3HgY6uJd2WfE5aX8tKo' },
    /REWARDOPS_API_KEYS: key 2 has an unknown role\. Write ROLE:KEY with the role viewer, trainer or admin/,
  ],
  [
    'a role without a key',
    { REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB,viewer:' },
    /REWARDOPS_API_KEYS: key 2 has 0 characters/,
  ],
  [
    'one key with two roles',
    { REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB,viewer:pT4wZ81mQx7RkV0s9LcB' },
    /REWARDOPS_API_KEYS: key 2 repeats key 1 with another role/,
  ],
  [
    'keys without an admin',
    { REWARDOPS_API_KEYS: 'viewer:pT4wZ81mQx7RkV0s9LcB' },
    /REWARDOPS_API_KEYS: no key has the role admin/,
  ],
])('%s is refused', (_, settings, message) => {
  expect(() => loadConfig({ ...env, ...settings })).toThrow(message)
})

test('a key may have a role, and only the first colon separates the two', () => {
  const keys = 'pT4wZ81mQx7RkV0s9LcB, viewer:n3HgY6uJd2WfE5aX8tKo, admin:trainer:zR5mVb8QkT1xNc7Y'
  expect(loadConfig({ ...env, REWARDOPS_API_KEYS: keys }).apiKeys).toEqual([
    { key: 'pT4wZ81mQx7RkV0s9LcB', role: 'admin' },
    { key: 'n3HgY6uJd2WfE5aX8tKo', role: 'viewer' },
    { key: 'trainer:zR5mVb8QkT1xNc7Y', role: 'admin' },
  ])
})

test('an error about a key does not contain the key', () => {
  const secret = 'n3HgY6uJd2WfE5aX8tKo'
  for (const keys of [`${secret}:x`, `viewer:${secret}`, `${secret},trainer:${secret}`]) {
    const load = () => loadConfig({ ...env, REWARDOPS_API_KEYS: keys })
    expect(load, keys).toThrow(/^(?!.*n3HgY6uJd2WfE5aX8tKo).*REWARDOPS_API_KEYS/s)
  }
})

test('sandboxes have names and URLs, with or without /run_code', () => {
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
