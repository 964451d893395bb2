import { existsSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { loadConfig } from '../config.ts'
import { describeMetrics } from '../http/metrics.ts'
import { CORRELATION_WORDS, KAPPA_WORDS } from './agreement.ts'
import { ERROR_REASONS } from './error-reasons.ts'
import { GROUP_SIGNAL_TEXT } from './group-signal.ts'
import { SAMPLE_FAILURE_TEXT } from './sample-reason.ts'

const api = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8')

it('docs/api.md has every error reason', () => {
  for (const [reason, row] of Object.entries(ERROR_REASONS)) {
    expect(api).toContain(`| \`${reason}\` | ${row.httpStatus} | ${row.hint} |`)
  }
})

it('docs/api.md has every reason why samples fail', () => {
  for (const [reason, text] of Object.entries(SAMPLE_FAILURE_TEXT))
    expect(api).toContain(`| \`${reason}\` | ${text} |`)
})

it('docs/api.md has every group signal', () => {
  for (const [signal, text] of Object.entries(GROUP_SIGNAL_TEXT))
    expect(api).toContain(`| \`${signal}\` | ${text} |`)
})

it('docs/compare.md has the words for agreement', () => {
  const compare = readFileSync(new URL('../../docs/compare.md', import.meta.url), 'utf8')
  for (const { from, word } of [...CORRELATION_WORDS, ...KAPPA_WORDS])
    expect(compare).toContain(`| ${from} | ${word} |`)
})

it('docs/metrics.md lists every metric', () => {
  const metrics = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
  for (const { name, type, help } of Object.values(describeMetrics()).flat())
    expect(metrics).toContain(`| \`${name}\` | ${type} | ${help} |`)
})

it('docs/settings.md lists every setting', () => {
  const settings = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8')
  for (const { name } of loadConfig({ NODE_ENV: 'test' }).settings)
    expect(settings).toContain(`\`${name}\``)
})

it('the files for containers and systemd use settings and files that exist', () => {
  const deploy = new URL('../../deploy/', import.meta.url)
  const text = (file: string) => readFileSync(new URL(file, deploy), 'utf8')
  const compose = parse(text('compose.yaml'), { merge: true }) as {
    services: Record<string, { environment?: Record<string, unknown>; volumes?: string[] }>
  }
  const services = Object.values(compose.services)
  const names = new Set<string>()
  // Services without `build` run images of other projects, whose variables are not settings of this service.
  for (const { environment = {} } of services.filter((service) => 'build' in service))
    for (const name of Object.keys(environment)) names.add(name)
  const units = ['rewardops', 'rewardops-worker', 'rewardops-sandbox'].map(
    (name) => `systemd/${name}.service`,
  )
  for (const file of ['Dockerfile', ...units])
    for (const [name] of text(file).matchAll(/\bREWARDOPS_\w+(?==)/g)) names.add(name)
  const settings = loadConfig({ NODE_ENV: 'test' }).settings.map(({ name }) => name)
  expect(names.size).toBeGreaterThan(6)
  expect([...names].filter((name) => !settings.includes(name))).toEqual([])

  const mounted = services
    .flatMap(({ volumes = [] }) => volumes)
    .filter((volume) => volume.startsWith('./'))
    .map((volume) => volume.split(':')[0] as string)
  expect(mounted.length).toBeGreaterThan(3)
  expect(mounted.filter((file) => !existsSync(new URL(file, deploy)))).toEqual([])

  // Prometheus and Grafana get no key that permits changes.
  const admin = 'pT4wZ81mQx7RkV0s9LcB'
  const scraper = 'n3HgY6uJd2WfE5aX8tKo'
  const keys = String(compose.services['server-1']?.environment?.REWARDOPS_API_KEYS)
    .replace(/\$\{REWARDOPS_ADMIN_KEY:\?\}/, admin)
    .replace(/\$\{REWARDOPS_METRICS_KEY:\?\}/, scraper)
  expect(loadConfig({ NODE_ENV: 'test', REWARDOPS_API_KEYS: keys }).apiKeys).toEqual([
    { key: admin, role: 'admin' },
    { key: scraper, role: 'viewer' },
  ])
  const others = services.filter((service) => !('build' in service))
  expect(JSON.stringify(others)).not.toContain('REWARDOPS_ADMIN_KEY')
})

it('docs/guarantees.md names an existing test for each guarantee', () => {
  const root = new URL('../../', import.meta.url)
  const rows = readFileSync(new URL('docs/guarantees.md', root), 'utf8')
    .split('\n')
    .filter((line) => /^\| G\d+ /.test(line))
  expect(rows.map((row) => /G\d+/.exec(row)?.[0])).toEqual(
    Array.from({ length: 29 }, (_, at) => `G${at + 1}`),
  )
  for (const row of rows) {
    const files = [...row.matchAll(/`([\w/-]+(?:\.full)?(?:\.test\.tsx?|\.py))`/g)].map(
      ([, file]) => file,
    )
    expect(files.length, row).toBeGreaterThan(0)
    for (const file of files) expect(existsSync(new URL(file as string, root)), file).toBe(true)
  }
})
