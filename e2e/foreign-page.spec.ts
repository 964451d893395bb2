import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from '@playwright/test'
import { policyReports, test } from './fixtures/service.ts'

// Browsers treat localhost and 127.0.0.1 as two sites.
let foreign: Server
let address = ''
test.beforeAll(async () => {
  foreign = createServer((_, res) => {
    res.setHeader('content-type', 'text/html')
    res.end('<!doctype html><title>Foreign</title><body>foreign')
  })
  await new Promise<void>((resolve) => foreign.listen(0, '127.0.0.1', resolve))
  address = `http://localhost:${(foreign.address() as AddressInfo).port}/`
})
test.afterAll(() => {
  foreign.close()
})

test('a page of another site cannot frame, read or open the service', async ({
  page,
  sharedService,
}) => {
  const own = (await (await fetch(sharedService.url)).text()).match(
    /\/_next\/static\/[^"]+\.js/,
  )?.[0]
  const batches = async () => (await sharedService.api.batches.list.query({})).items.length
  const before = await batches()
  await page.goto(address)
  const seen = await page.evaluate(
    async ({ url, script }) => {
      const read = (path: string, init: RequestInit = {}) =>
        fetch(url + path, init).then(
          (answer) => `${answer.type} ${answer.status}`,
          () => 'refused',
        )
      const loaded = (element: HTMLImageElement | HTMLScriptElement, path: string) =>
        new Promise<string>((resolve) => {
          element.onload = () => resolve('loaded')
          element.onerror = () => resolve('refused')
          element.src = url + path
          document.body.append(element)
        })
      const framed = (path: string) =>
        new Promise<string>((resolve) => {
          const frame = document.createElement('iframe')
          frame.onload = () => {
            try {
              resolve(frame.contentDocument?.body.innerText ?? 'closed')
            } catch {
              resolve('closed')
            }
          }
          frame.src = url + path
          document.body.append(frame)
        })
      return {
        read: await read('/api/trpc/session.get'),
        readWithCookie: await read('/api/trpc/session.get', { credentials: 'include' }),
        opaque: await read('/api/trpc/session.get', { mode: 'no-cors' }),
        post: await read('/api/trpc/demo.load', { method: 'POST', mode: 'no-cors', body: '{}' }),
        image: await loaded(new Image(), '/icon.svg'),
        script: await loaded(document.createElement('script'), script),
        frame: await framed('/'),
        data: await framed('/api/trpc/session.get'),
      }
    },
    { url: sharedService.url, script: own as string },
  )
  expect(seen).toEqual({
    ...{ read: 'refused', readWithCookie: 'refused', opaque: 'refused', post: 'refused' },
    ...{ image: 'refused', script: 'refused', frame: 'closed', data: 'closed' },
  })
  for (const frame of page.frames().slice(1))
    expect(await frame.content()).not.toContain('rewardops')
  expect(await batches()).toBe(before)

  // Pages opened by a link from another site stay hidden, because that site could otherwise observe them.
  await page.evaluate((url) => {
    location.href = url
  }, sharedService.url)
  await expect(page.locator('body')).toContainText(
    'Requests from pages of another site are refused',
  )
  expect(policyReports.every((report) => report.includes('frame-ancestors'))).toBe(true)
  policyReports.length = 0
})

test('a host name rebound to the service gets no data', async ({ page, sharedService }) => {
  // Browsers resolve all names below localhost to this machine.
  const rebound = sharedService.url.replace('127.0.0.1', 'rebound.localhost')
  for (const path of ['/', '/api/trpc/session.get', '/api/export/samples', '/metrics']) {
    await page.goto(rebound + path)
    await expect(page.locator('body')).toContainText('The host \\"rebound.localhost')
  }
})
