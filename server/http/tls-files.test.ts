import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { selfSignedCertificate } from '../../testkit/service/self-signed.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { readTlsFiles, watchTlsFiles } from './tls-files.ts'

let folder: string
let server: Server
let files: { certFile: string; keyFile: string }
let stopWatching = () => {}
const [first, second] = [selfSignedCertificate(), selfSignedCertificate()]
const logged: string[] = []
const log = {
  info: (text: string) => logged.push(text),
  error: (_: object, text: string) => logged.push(text),
} as never

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-tls-'))
  files = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') }
  writeFileSync(files.certFile, first.cert)
  writeFileSync(files.keyFile, first.key)
  server = createServer(readTlsFiles(files), (_, res) => res.end('yes'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stopWatching = watchTlsFiles(files, server, log, 10)
})

afterAll(() => {
  stopWatching()
  server.close()
  rmSync(folder, { recursive: true })
})

const serves = (cert: string) =>
  new Promise<boolean>((resolve) => {
    const { port } = server.address() as AddressInfo
    const options = {
      port,
      ca: cert,
      servername: 'localhost',
      checkServerIdentity: () => undefined,
    }
    const call = request({ ...options, host: '127.0.0.1', agent: false }, (res) => {
      res.resume()
      resolve(true)
    })
    call.once('error', () => resolve(false))
    call.end()
  })

it('serves a new certificate when both files have changed, and keeps the old one until then', async () => {
  expect([await serves(first.cert), await serves(second.cert)]).toEqual([true, false])
  writeFileSync(files.certFile, second.cert)
  await waitFor('the refusal of the pair', () => logged.at(-1)?.includes('not reloaded'))
  expect(await serves(first.cert)).toBe(true)
  writeFileSync(files.keyFile, second.key)
  await waitFor('the new certificate', () => logged.at(-1)?.includes('was reloaded'))
  expect([await serves(first.cert), await serves(second.cert)]).toEqual([false, true])
  writeFileSync(files.certFile, 'no certificate')
  await waitFor('the refusal of the file', () => logged.at(-1)?.includes('not reloaded'))
  expect(await serves(second.cert)).toBe(true)
})

it('refuses files that are not a certificate and its key', () => {
  writeFileSync(files.certFile, first.cert)
  expect(() => readTlsFiles(files)).toThrow(/REWARDOPS_TLS_CERT.*are not a certificate and its key/)
  expect(() => readTlsFiles({ ...files, keyFile: join(folder, 'none') })).toThrow(/ENOENT/)
})
