import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from '@playwright/test'
import { freePort } from '../testkit/processes/port.ts'
import { createApi } from '../testkit/processes/trpc-call.ts'
import { sample } from '../testkit/service/rollouts.ts'
import { waitFor } from '../testkit/service/wait-for.ts'
import { choose } from './fixtures/choose.ts'
import { expectLive, pageHeader, watchErrors } from './fixtures/look.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

/** A service below /rewardops behind nginx. One port of nginx removes the prefix, the other one keeps it. */

const KEY = 'pT4wZ81mQx7RkV0s9LcB'
const PREFIX = '/rewardops'
let service: TestService
let nginx: ChildProcess
let folder = ''
const ports = { 'removes the prefix': 0, 'keeps the prefix': 0 }
type Kind = keyof typeof ports

test.skip(spawnSync('nginx', ['-v']).error !== undefined, 'nginx is not installed')

test.beforeAll(async () => {
  service = await startTestService({
    REWARDOPS_BASE_PATH: PREFIX,
    REWARDOPS_API_KEYS: KEY,
    REWARDOPS_TRUSTED_PROXIES: '127.0.0.1',
    REWARDOPS_WORKERS: '1',
  })
  for (const kind of Object.keys(ports) as Kind[]) ports[kind] = await freePort()
  folder = mkdtempSync(join(tmpdir(), 'rewardops-nginx-'))
  nginx = startNginx(service.url)
  await waitFor('the proxy', async () => {
    const answer = await fetch(addressOf('keeps the prefix')).catch(() => null)
    return answer?.status === 200
  })
})
test.afterAll(async () => {
  nginx?.kill()
  await service?.stop()
  if (folder) rmSync(folder, { recursive: true, force: true })
})

const addressOf = (kind: Kind) => `http://127.0.0.1:${ports[kind]}${PREFIX}`

/** Paths outside of the prefix belong to other services, so nginx answers them with 418. */
function startNginx(upstream: string): ChildProcess {
  const server = (kind: Kind, target: string) => `server {
    listen 127.0.0.1:${ports[kind]};
    location = ${PREFIX} { proxy_pass ${upstream}${target === '/' ? '/' : PREFIX}; }
    location ${PREFIX}/ { proxy_pass ${upstream}${target}; }
    location / { return 418; }
  }`
  const file = join(folder, 'nginx.conf')
  writeFileSync(
    file,
    `${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; pid ${folder}/nginx.pid; worker_processes 1;
events { worker_connections 256; }
http {
  access_log off; client_max_body_size 64m;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 120s;
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_set_header X-Forwarded-Host $http_host;
  ${server('removes the prefix', '/')}
  ${server('keeps the prefix', `${PREFIX}/`)}
}`,
  )
  return spawn('nginx', ['-c', file, '-e', join(folder, 'error.log')], { stdio: 'inherit' })
}

for (const kind of Object.keys(ports) as Kind[]) {
  test(`the dashboard works below ${PREFIX} behind a proxy that ${kind}`, async ({
    page,
    context,
  }) => {
    const address = addressOf(kind)
    const errors = watchErrors(page)
    const outside: string[] = []
    page.on('request', (request) => {
      const url = new URL(request.url())
      if (url.pathname !== PREFIX && !url.pathname.startsWith(`${PREFIX}/`)) outside.push(url.href)
    })

    await page.goto(`${address}/batches?status=running`)
    await page.waitForURL(`${address}/login?next=%2Fbatches%3Fstatus%3Drunning`)
    await page.getByLabel('API key').fill(KEY)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(`${address}/batches?status=running`)
    await expectLive(page)
    // With this path, the cookie is not sent to other services of the host.
    expect((await context.cookies()).map((cookie) => cookie.path)).toEqual([PREFIX])

    const run = `below-a-prefix-${ports[kind]}`
    await page.goto(address)
    await expectLive(page)
    const api = createApi(() => address, { authorization: `Bearer ${KEY}` })
    const { batchId } = await api.batches.submit.mutate({
      run,
      step: 1,
      samples: [sample({ uid: 'a' }), sample({ uid: 'a' })],
    })
    await page.locator(`a[href="${PREFIX}/runs/${run}"]`).first().click({ timeout: 15_000 })
    await page.waitForURL(`${address}/runs/${run}`)
    await expect(pageHeader(page)).toContainText(run)
    await page.reload()
    await expectLive(page)
    await expect(pageHeader(page)).toContainText(run)

    await page.keyboard.press('ControlOrMeta+k')
    await page.getByRole('combobox', { name: 'Search pages and actions' }).fill(batchId)
    await expect(page.getByRole('option').first()).toContainText(batchId)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${address}/batches/${batchId}`)
    await expect(pageHeader(page)).toContainText('Completed')

    await page.goto(`${address}/samples?batch=${batchId}`)
    await page.getByRole('button', { name: 'Export' }).click()
    const downloading = page.waitForEvent('download')
    await page.getByRole('dialog').getByRole('button', { name: 'Export' }).click()
    const file = await (await downloading).path()
    const rows = readFileSync(file, 'utf8').split('\n')
    expect(rows.filter((row) => row.startsWith(`${batchId},`))).toHaveLength(2)
    expect(await page.getByRole('link', { name: 'direct download' }).getAttribute('href')).toMatch(
      /^\/rewardops\/api\/export\/samples\?/,
    )
    await page.getByRole('button', { name: 'Close' }).first().click()

    await page.goto(`${address}/batches`)
    await choose(page.getByLabel('Status'), 'Failed')
    await page.waitForURL(`${address}/batches?status=failed`)
    await page.goBack()

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL(`${address}/login`)
    expect(outside).toEqual([])
    errors.expectNone()
  })
}

test('URLs that the service writes have the prefix', async () => {
  expect(service.url).toMatch(/^http:\/\/[^/]+$/)
  const address = addressOf('keeps the prefix')
  const headers = { authorization: `Bearer ${KEY}` }
  const session = await fetch(`${address}/api/trpc/session.get`, { headers })
  expect(await session.json()).toMatchObject({ result: { data: { address } } })
  for (const base of [address, service.url]) {
    expect((await fetch(`${base}/readyz`)).status).toBe(200)
    expect((await fetch(`${base}/v1/models`, { headers })).status).toBe(200)
    expect((await fetch(`${base}/metrics`, { headers })).status).toBe(200)
  }
})
