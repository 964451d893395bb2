import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { Agent, get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { holdHalfWay } from '../../testkit/service/full-sender.ts'
import {
  processesAbout,
  processesWith,
  type SeenProcess,
} from '../../testkit/service/process-tree.ts'
import { sample } from '../../testkit/service/rollouts.ts'
import { environment, Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { inspectProcess } from '../store/postgres/processes.ts'

const STOP_REQUEST = new URL('../stop-request.ts', import.meta.url).href
/**
 * A module that is imported directly after `STOP_REQUEST` and prints a line. When the line appears, signals are
 * handled, and the rest of the service's code has not run yet.
 */
const SAYS_SO = 'data:text/javascript,console.log("listening")'
const START = fileURLToPath(new URL('../start.ts', import.meta.url))
const RUN = fileURLToPath(new URL('../../scripts/run.mjs', import.meta.url))
/** Time limit of a stage. A stage takes a second or two, or many times that on a busy machine. */
const STAGE_MS = 120_000
const OUTLIVE_MS = 10_000
const STAGES: Record<string, (dir: string, said: string) => boolean> = {
  'it handles signals': (_, said) => said.includes('listening'),
  'it owns the data folder': (dir) => existsSync(join(dir, 'postgres.owner')),
  'initdb runs': (dir) => existsSync(join(dir, 'postgres.new')),
  'Postgres starts': (dir) => existsSync(join(dir, 'postgres/postmaster.pid')),
  'its workers start': (dir) =>
    processesOf(dir).some(({ commandLine }) => commandLine.includes('server/worker/start.ts')),
}
const MOMENTS = Object.keys(STAGES).flatMap((stage) =>
  [0, 50, 250, 1_000].map((ms) => [stage, ms] as const),
)

const folders: string[] = []
const children: ChildProcess[] = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const dir of folders.splice(0)) {
    await waitFor('an empty data folder', () => {
      rmSync(dir, { recursive: true, force: true })
      return true
    })
  }
})

/** Starts a service on a fresh folder. The path of the folder identifies the processes of the service. */
function begin(command: string[] = ['--import', STOP_REQUEST, '--import', SAYS_SO, START]): {
  child: ChildProcess
  dir: string
  said: () => string
} {
  const dir = mkdtempSync(join(tmpdir(), 'rewardops-start-'))
  folders.push(dir)
  const child = spawn(process.execPath, command, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment({ PORT: '0', REWARDOPS_DATA_DIR: dir, REWARDOPS_PAGES: '0' }),
  })
  children.push(child)
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
  }
  return { child, dir, said: () => said }
}

const processesOf = (dir: string): SeenProcess[] => [
  ...processesWith('REWARDOPS_DATA_DIR', dir),
  ...processesAbout(dir),
]

const reached = (stage: string, dir: string, said: () => string) =>
  waitFor(stage, () => STAGES[stage]?.(dir, said()) === true, STAGE_MS)

test(
  'a stop waits for the answer to a call that is under way',
  async () => {
    const service = await Service.start()
    try {
      const run = 'stopped'
      await service.api.batches.submit.mutate({ run, step: 1, samples: [sample()] })
      const body = JSON.stringify({ run, step: 1, label: 'made during a stop' })
      const { workers } = await service.pids()
      const { promise: areGone, resolve: goOn } = Promise.withResolvers<void>()
      const [first, rest] = [Buffer.from(body.slice(0, 20)), Buffer.from(body.slice(20))]
      // The service looks up the user of every new connection. For this open connection, the user is already known, so
      // the call passes the checks as soon as it arrives.
      const agent = new Agent({ keepAlive: true })
      const [known] = await once(get(`${service.url}/api/openapi.json`, { agent }), 'response')
      await once((known as IncomingMessage).resume(), 'end')
      const call = holdHalfWay(`${service.url}/api/trpc/marks.create`, first, rest, areGone, agent)
      await call.sent
      await service.api.marks.list.query({ run })
      const stopped = service.stop()
      await waitFor('the end of the workers', () => workers.every((pid) => !inspectProcess(pid)))
      goOn()
      expect(await call.answer).toEqual({ status: 200 })
      expect(await stopped).toMatchObject({ code: 0, signal: null })
      expect(service.log.problems()).toEqual([])
      agent.destroy()
    } finally {
      await service.destroy()
    }
  },
  STAGE_MS,
)

describe.runIf(process.platform === 'linux')('a service that is starting', () => {
  test.each(MOMENTS)(
    'exits with code 0 and leaves no process if it is stopped when %s, %i ms later',
    async (stage, ms) => {
      const { child, dir, said } = begin()
      await reached(stage, dir, said)
      await sleep(ms)
      child.kill('SIGTERM')
      const end = await once(child, 'exit')
      expect({ end, said: said().slice(-500) }).toMatchObject({ end: [0, null] })
      expect(said()).not.toMatch(/could not start|unhandled/i)
      await waitFor('the end of its processes', () => processesOf(dir).length === 0, OUTLIVE_MS)
      expect(existsSync(join(dir, 'postgres/postmaster.pid'))).toBe(false)
      expect(existsSync(join(dir, 'postgres.owner'))).toBe(false)
    },
  )

  test.each(MOMENTS)(
    'leaves no process after 10 s if it is killed when %s, %i ms later',
    async (stage, ms) => {
      const { child, dir, said } = begin()
      await reached(stage, dir, said)
      await sleep(ms)
      child.kill('SIGKILL')
      await once(child, 'exit')
      const killedAt = performance.now()
      const left = () => processesOf(dir)
      while (left().length > 0 && performance.now() - killedAt < OUTLIVE_MS) await sleep(100)
      expect(left()).toEqual([])
    },
  )

  test.each([0, 50, 200, 500, 1_500])('by run.mjs leaves no process after %i ms', async (ms) => {
    const { child, dir, said } = begin([RUN, 'worker'])
    const exit = once(child, 'exit')
    const isEntry = ({ commandLine }: SeenProcess) => commandLine.includes('server/worker/start.ts')
    await waitFor('the entry', () => processesOf(dir).some(isEntry), 60_000)
    await sleep(ms)
    child.kill('SIGTERM')
    const end = await exit
    // A worker that is not stopped early enough exits with 1, because DATABASE_URL is missing.
    expect([0, 1]).toContain(end[0])
    if (end[0] === 1) expect(said()).toMatch(/DATABASE_URL/)
    await waitFor('the end of its processes', () => processesOf(dir).length === 0, OUTLIVE_MS)
  })
})
