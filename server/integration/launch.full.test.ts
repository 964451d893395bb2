import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../../testkit/processes/port.ts'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { runToEnd, Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { ServerDto } from '../contract/servers.ts'
import { inspectProcess } from '../store/postgres/processes.ts'

const MAIN = fileURLToPath(new URL('../../testkit/simulated-rm/main.ts', import.meta.url))
const KEY = 'sk-of-the-launched-0815'
const TOKEN = 'hf_token_of_the_launched'

let folder: string
let service: Service
let port: number

const command = (...args: string[]) => [process.execPath, join(folder, 'indiscreet.mjs'), ...args]

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-launch-'))
  writeFileSync(
    join(folder, 'indiscreet.mjs'),
    `import { pathToFileURL } from 'node:url'
console.log('non-default args:', process.argv.slice(2).join(' '))
console.error('environment:', process.env.HF_TOKEN, process.env.REWARDOPS_DATA_DIR, process.env.PORT)
process.argv[1] = ${JSON.stringify(MAIN)}
await import(pathToFileURL(${JSON.stringify(MAIN)}).href)
`,
  )
  port = await freePort()
  const servers = [
    {
      name: 'launched',
      engine: 'vllm',
      port,
      command: command('--port', String(port), '--api-key', KEY),
      apiKey: KEY,
      env: { HF_TOKEN: TOKEN },
    },
  ]
  writeFileSync(join(folder, 'servers.json'), JSON.stringify(servers))
  service = await Service.start({ env: { REWARDOPS_SERVERS_FILE: join(folder, 'servers.json') } })
})
afterAll(() => stopCleanly(service, () => rmSync(folder, { recursive: true, force: true })))

const get = (name: string) => service.api.servers.get.query({ name })
const inState = (name: string, state: ServerDto['state']) =>
  waitFor(`${name} to be ${state}`, async () => {
    const server = await get(name)
    return server.state === state && server
  })
function pidOf(name: string): number {
  const text = readFileSync(join(service.dataDir, 'servers', `${name}.pid`), 'utf8')
  return (JSON.parse(text) as { pid: number }).pid
}
const pidFile = () => join(service.dataDir, 'servers', 'launched.pid')
const runs = (pid: number) => inspectProcess(pid)?.running === true
const log = async (name: string, lines = 200) =>
  (await service.api.servers.log.query({ name, lines })).lines

describe('a server of REWARDOPS_SERVERS_FILE', () => {
  it('is started, tested, and scores', async () => {
    const server = await inState('launched', 'ready')
    expect(server).toMatchObject({ model: 'simulated-rm', launched: true, engine: 'vllm' })
    expect(server.events.map((e) => e.to).reverse()).toEqual(['registering', 'probing', 'ready'])
    const { batchId } = await service.api.batches.submit.mutate({
      run: 'launch',
      step: 1,
      samples: rollouts(16),
      reward: { model: 'simulated-rm' },
    })
    const end = await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    expect(end).toMatchObject({ scored: 16, failed: 0 })
  })

  it('is restarted when it ends, and its exit and last output are reported', async () => {
    const pid = pidOf('launched')
    process.kill(pid, 'SIGKILL')
    await waitFor('another process', async () => {
      const { events } = await get('launched')
      return events.some((e) => e.cause.includes('SIGKILL')) && pidOf('launched') !== pid
    })
    const { events } = await inState('launched', 'ready')
    const ended = events.find((e) => e.cause.includes('SIGKILL'))!
    expect(ended).toMatchObject({
      from: 'ready',
      to: 'registering',
      cause: expect.stringMatching(/restarts in 1 s/),
      evidence: { signal: 'SIGKILL', exitCode: null, livedMs: expect.any(Number) },
    })
    const lastLines = ended.evidence!.lastLines as string[]
    expect(lastLines.join('\n')).toMatch(/non-default args: --port/)
  })

  it('has a log without secrets, and does not inherit the service’s settings', async () => {
    const lines = await log('launched')
    expect(lines.join('\n')).toMatch(/ended with SIGKILL/)
    expect(lines).toContain(`non-default args: --port ${port} --api-key ***`)
    expect(lines).toContain('environment: *** undefined undefined')
    expect(await log('launched', 1)).toEqual(lines.slice(-1))
    const stored = await service.sql<{ text: string }>(
      `select row_to_json(e)::text as text from server_event e
       union all select to_jsonb(s)::text from server s`,
    )
    const files = readdirSync(join(service.dataDir, 'servers')).map((file) =>
      readFileSync(join(service.dataDir, 'servers', file), 'utf8'),
    )
    const texts = [
      ...stored.map((row) => row.text),
      ...files,
      ...service.log.lines.map((line) => line.raw),
      JSON.stringify([await get('launched'), lines]),
    ]
    expect(texts.filter((text) => text.includes(KEY) || text.includes(TOKEN))).toEqual([])
  })

  it('is started once its files can be written, and the service runs meanwhile', async () => {
    const owner = join(service.dataDir, 'servers', 'launched.owner')
    rmSync(owner, { force: true })
    mkdirSync(owner)
    const pid = pidOf('launched')
    process.kill(pid, 'SIGKILL')
    await waitFor('the refused start', async () =>
      (await get('launched')).events.some((e) => e.cause.includes('could not be started')),
    )
    rmSync(owner, { recursive: true })
    await inState('launched', 'ready')
    expect(pidOf('launched')).not.toBe(pid)
  })

  it('is adopted with its log by the next start after the service was killed', async () => {
    const pid = pidOf('launched')
    await service.kill9('all')
    expect(runs(pid)).toBe(true)
    await service.restart()
    const { events } = await waitFor('the adoption', async () => {
      const server = await get('launched')
      return server.events.some((e) => e.cause.includes('taken over')) && server
    })
    expect(events.find((e) => e.cause.includes('taken over'))).toMatchObject({ evidence: { pid } })
    await inState('launched', 'ready')
    expect(pidOf('launched')).toBe(pid)
    expect(runs(pid)).toBe(true)
    expect(service.log.find('earlier run left running')).toEqual([])
    process.kill(pid, 'SIGKILL')
    await waitFor('another process', () => existsSync(pidFile()) && pidOf('launched') !== pid)
    await inState('launched', 'ready')
    expect(
      (await log('launched')).filter((line) => line.includes('ended with SIGKILL')),
    ).toHaveLength(3)
  })

  it('is ended by the next start if its launch has changed', async () => {
    const pid = pidOf('launched')
    await service.kill9('all')
    const file = join(folder, 'servers.json')
    const before = readFileSync(file, 'utf8')
    const [entry] = JSON.parse(before)
    writeFileSync(file, JSON.stringify([{ ...entry, env: { ...entry.env, MORE: '1' } }]))
    await service.restart()
    await waitFor('the end of the old process', () => !runs(pid))
    await inState('launched', 'ready')
    expect(pidOf('launched')).not.toBe(pid)
    expect(service.log.find('earlier run left running').length).toBe(1)
    writeFileSync(file, before)
  })

  it('ends with the service', async () => {
    const pid = pidOf('launched')
    expect(await service.stop()).toMatchObject({ code: 0 })
    expect(runs(pid)).toBe(false)
    await service.restart()
    await inState('launched', 'ready')
  })

  it('stays drained when its process or the service ends, until it is resumed', async () => {
    await service.api.servers.drain.mutate({ name: 'launched' })
    const pid = pidOf('launched')
    process.kill(pid, 'SIGKILL')
    await waitFor('another process', () => existsSync(pidFile()) && pidOf('launched') !== pid)
    const { state, events } = await get('launched')
    expect(state).toBe('draining')
    expect(events[0]).toMatchObject({ kind: 'process', cause: expect.stringMatching(/SIGKILL/) })
    await service.stop()
    await service.restart()
    await waitFor('the process', () => existsSync(pidFile()))
    expect(await get('launched')).toMatchObject({
      state: 'draining',
      stateCause: 'drain requested',
    })
    await service.api.servers.resume.mutate({ name: 'launched' })
    await inState('launched', 'ready')
  })

  it('prevents the start of the service if it is invalid, and the error names the position', async () => {
    const file = join(folder, 'wrong.json')
    writeFileSync(file, JSON.stringify([{ name: 'rm', engine: 'vllm', port: 1, apiKey: KEY }]))
    const { code, stderr } = await runToEnd({ REWARDOPS_SERVERS_FILE: file })
    expect(code).toBe(1)
    expect(stderr).toMatch(/REWARDOPS_SERVERS_FILE=.*wrong\.json: \[0\]\.command: is missing/)
    expect(stderr).not.toContain(KEY)
  })
})

describe('servers.launch', () => {
  const input = (name: string, at: number): ApiInputs['servers']['launch'] => ({
    name,
    engine: 'vllm',
    port: at,
    command: command('--port', String(at), '--model', name),
  })

  it('is refused unless it is allowed', async () => {
    const answer = await service.post('servers.launch', JSON.stringify(input('more', 1)))
    expectRefusal(answer, { status: 403, reason: 'launch_disabled', message: /not allowed/ })
    const log = await service.raw('/api/trpc/servers.log?input={"name":"nobody"}')
    expectRefusal(log, { status: 404, reason: 'server_not_found', message: 'nobody' })
  })

  it('reports the end of a process that was taken over from a killed service', async () => {
    const allowed = await Service.start({ env: { REWARDOPS_ALLOW_LAUNCH: '1' } })
    try {
      await allowed.api.servers.launch.mutate(input('kept', await freePort()))
      const kept = () => allowed.api.servers.get.query({ name: 'kept' })
      const event = (text: string) =>
        waitFor(`the event: ${text}`, async () => {
          const { events } = await kept()
          return events.find(({ cause }) => cause.includes(text))
        })
      await waitFor('a ready server', async () => (await kept()).state === 'ready')
      await allowed.kill9('all')
      await allowed.restart()
      const { evidence } = await event('taken over')
      process.kill(evidence!.pid as number, 'SIGKILL')
      const ended = await event('SIGKILL')
      expect(ended.evidence).toMatchObject({ signal: 'SIGKILL', exitCode: null })
      expect(ended.evidence!.livedMs).toBeGreaterThan(0)
      expect((ended.evidence!.lastLines as string[]).join('\n')).toMatch(/non-default args: --port/)
    } finally {
      expect((await allowed.stop()).code).toBe(0)
      await allowed.destroy()
    }
  })

  it('starts a server that is stopped when removed; a failed start reports the cause', async () => {
    const allowed = await Service.start({ env: { REWARDOPS_ALLOW_LAUNCH: '1' } })
    try {
      const at = await freePort()
      const begun = await allowed.api.servers.launch.mutate(input('called', at))
      expect(begun).toMatchObject({ state: 'registering', launched: true })
      const state = async (name: string) => (await allowed.api.servers.get.query({ name })).state
      await waitFor('a ready server', async () => (await state('called')) === 'ready')
      expect(await allowed.api.servers.get.query({ name: 'called' })).toMatchObject({
        model: 'called',
      })
      await allowed.stop()
      await allowed.restart()
      await waitFor('a ready server', async () => (await state('called')) === 'ready')
      const pid = JSON.parse(readFileSync(join(allowed.dataDir, 'servers', 'called.pid'), 'utf8'))
        .pid as number
      await allowed.api.servers.remove.mutate({ name: 'called' })
      expect(runs(pid)).toBe(false)
      const owner = join(allowed.dataDir, 'servers', 'missing.owner')
      mkdirSync(owner)
      await allowed.api.servers.launch.mutate({
        ...input('missing', await freePort()),
        command: ['/nowhere/vllm'],
      })
      const seen = async (cause: RegExp) =>
        (await allowed.api.servers.get.query({ name: 'missing' })).events.some(
          (e) => e.kind === 'process' && cause.test(e.cause),
        )
      await waitFor('the file in the way', () =>
        seen(/could not be started \(EISDIR\); restarts in \d+ s/),
      )
      rmSync(owner, { recursive: true })
      await waitFor('the missing program', () =>
        seen(/could not be started \(ENOENT\); restarts in \d+ s/),
      )
      const refused = await allowed.post('servers.launch', JSON.stringify(input('none', 0)))
      expectRefusal(refused, { status: 400, reason: 'invalid_input', message: /^port: / })
    } finally {
      expect((await allowed.stop()).code).toBe(0)
      await allowed.destroy()
    }
  })
})
