import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import { loadConfig } from '../config.ts'
import { createLogger } from '../log.ts'
import { closePort, openFront } from './front.ts'

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === '::1'),
)

test.runIf(hasIpv6)('an IPv6 address is in brackets in the URLs of the service', async () => {
  const config = loadConfig({ NODE_ENV: 'test', HOST: '::1', PORT: '0' })
  const front = await openFront(config, createLogger('silent', 'test'))
  try {
    expect(front.url).toBe(`http://[::1]:${front.port}`)
    expect(front.routerAddress).toBe(`[::1]:${front.port}`)
    expect((await fetch(`${front.url}/health`)).status).toBe(503)
  } finally {
    await closePort(front.server)(1_000)
  }
})
