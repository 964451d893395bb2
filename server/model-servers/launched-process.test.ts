import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runWithFewFiles } from '../../testkit/processes/child.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { isRunning, markOf } from '../store/postgres/processes.ts'
import { type LaunchRecord, livingOwner, readRecord, writeRecord } from './launch-record.ts'
import {
  claimLaunched,
  endLeftovers,
  isOwnedByAnother,
  LaunchedProcess,
} from './launched-process.ts'

const MODULE = fileURLToPath(new URL('./launched-process.ts', import.meta.url))
const PATIENCE_MS = 60_000

let dataDir: string
let folder: string
const left: number[] = []
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'rewardops-launched-'))
  folder = join(dataDir, 'servers')
})
afterEach(async () => {
  for (const pid of left.splice(0)) {
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {}
  }
  await waitFor('an empty folder', () => {
    rmSync(dataDir, { recursive: true, force: true })
    return true
  })
})

const COMMAND = {
  name: 'rm',
  argv: [process.execPath, '-e', 'setInterval(() => console.log("alive s3cret"), 50)'],
  cwd: undefined,
  env: { PATH: process.env.PATH } as unknown as NodeJS.ProcessEnv,
  secrets: ['s3cret'],
  fingerprint: 'one',
}

const SILENT = [process.execPath, '-e', 'setInterval(() => {}, 1_000)']
/** Whether a process with the data folder as its last argument is running. */
function isMarkedRunning(): boolean {
  const processes = execFileSync('ps', ['-ww', '-eo', 'pid=,args='], { encoding: 'utf8' })
  const found = processes.split('\n').find((process) => process.endsWith(` ${dataDir}`))
  if (found) left.push(Number.parseInt(found, 10))
  return found !== undefined
}

const record = () => readRecord<LaunchRecord>(join(folder, 'rm.pid'))
const logText = () => readFileSync(join(folder, 'rm.log'), 'utf8')
const running = (what = 'a launched process') =>
  waitFor(
    what,
    () => {
      const found = record()
      if (found) left.push(found.pid, found.keeper.pid)
      return found
    },
    PATIENCE_MS,
  )

async function launchedByTheDead(
  adoptWithinMs: number,
  argv: readonly string[] = COMMAND.argv,
): Promise<LaunchRecord> {
  const file = join(dataDir, 'service.mjs')
  writeFileSync(
    file,
    `import { LaunchedProcess } from ${JSON.stringify(MODULE)}
     LaunchedProcess.start(${JSON.stringify(folder)}, ${JSON.stringify({ ...COMMAND, argv })}, 1_000, ${adoptWithinMs})
     setInterval(() => {}, 1_000)`,
  )
  const service = spawn(process.execPath, [file], { stdio: 'inherit' })
  const found = await running()
  expect(isOwnedByAnother(folder, 'rm')).toBe(true)
  expect(await endLeftovers(folder, 1_000, () => false)).toEqual([])
  expect(isRunning(found)).toBe(true)
  service.kill('SIGKILL')
  await once(service, 'exit')
  return found
}

test('a launched process runs behind a keeper that writes its log without secrets and records its end', async () => {
  const launched = LaunchedProcess.start(folder, COMMAND, 1_000)
  const found = await running()
  await waitFor(
    'its output',
    () => existsSync(join(folder, 'rm.log')) && /alive/.test(logText()),
    PATIENCE_MS,
  )
  expect(logText()).toMatch(/alive \*\*\*/)
  expect(logText()).not.toContain('s3cret')
  process.kill(found.pid, 'SIGKILL')
  expect(await launched.ended).toMatchObject({
    signal: 'SIGKILL',
    code: null,
    error: null,
    lastLines: expect.arrayContaining(['alive ***']),
  })
  expect(record()).toBe(null)
  await waitFor('the end of its keeper', () => !isRunning(found.keeper), PATIENCE_MS)
})

test('a launched process stops together with its child processes', async () => {
  const launched = LaunchedProcess.start(folder, COMMAND, 1_000)
  const found = await running()
  await launched.stop(5_000)
  expect(isRunning(found)).toBe(false)
  expect((await launched.ended).signal).toBe('SIGTERM')
})

test.each([
  { argv: ['/nowhere/vllm'], code: 'ENOENT' },
  // Linux accepts at most 128 KiB per argument. Node throws E2BIG, whereas it emits ENOENT as an event.
  { argv: ['true', 'x'.repeat(200_000)], code: 'E2BIG' },
])('a launched process that cannot be started reports $code', async ({ argv, code }) => {
  const { error } = await LaunchedProcess.start(folder, { ...COMMAND, argv }, 1_000).ended
  expect(error).toBe(`could not be started (${code})`)
})

test('a launched process that has no file descriptors reports the reason', () => {
  const script = `
    import { closeSync, openSync } from 'node:fs'
    import { LaunchedProcess } from ${JSON.stringify(MODULE)}
    let last
    try {
      for (;;) last = openSync('/dev/null')
    } catch {}
    // One free file descriptor suffices for the files of the launch, but not for the pipe of a process.
    closeSync(last)
    const folder = ${JSON.stringify(folder)}
    const { ended } = LaunchedProcess.start(folder, ${JSON.stringify(COMMAND)}, 1_000)
    console.log((await ended).error)`
  const node = runWithFewFiles(script)
  expect(node.stderr).toBe('')
  expect(node.stdout).toBe('could not be started (EMFILE)\n')
})

test('a launched process ends if its keeper cannot write its record', async () => {
  const argv = [...SILENT, dataDir]
  const launched = LaunchedProcess.start(folder, { ...COMMAND, argv }, 1_000)
  // The folder is gone before the keeper starts the process: the keeper receives its whole command only after this turn
  // of the event loop.
  rmSync(folder, { recursive: true })
  await launched.ended
  await waitFor('its end', () => !isMarkedRunning(), PATIENCE_MS)
})

test('the child processes of a launched process end if it is killed together with its keeper', async () => {
  const script = `require('node:child_process').spawn(process.execPath, ${JSON.stringify([...SILENT.slice(1), dataDir])})
    setInterval(() => {}, 1_000)`
  const argv = [process.execPath, '-e', script]
  const launched = LaunchedProcess.start(folder, { ...COMMAND, argv }, 1_000)
  const found = await running()
  await waitFor('its child', isMarkedRunning, PATIENCE_MS)
  process.kill(found.keeper.pid, 'SIGSTOP')
  process.kill(found.pid, 'SIGKILL')
  await waitFor('its end', () => !isRunning(found), PATIENCE_MS)
  process.kill(found.keeper.pid, 'SIGKILL')
  await launched.ended
  await waitFor('the end of its child', () => !isMarkedRunning(), PATIENCE_MS)
})

test('a process that got the pid of a launched process is not killed', async () => {
  const launched = LaunchedProcess.start(folder, COMMAND, 1_000)
  const found = await running()
  const other = spawn(SILENT[0] as string, SILENT.slice(1), { detached: true, stdio: 'ignore' })
  const pid = other.pid as number
  left.push(pid)
  const exited = once(other, 'exit')
  writeRecord(join(folder, 'rm.pid'), { ...found, pid, startedAt: 'earlier' })
  process.kill(found.keeper.pid, 'SIGKILL')
  await launched.ended
  other.kill('SIGTERM')
  expect(await exited).toEqual([null, 'SIGTERM'])
})

test('the end of a launched process is reported even if no file can be written or deleted', async () => {
  const launched = LaunchedProcess.start(folder, COMMAND, 1_000)
  const found = await running()
  mkdirSync(join(folder, 'rm.end'))
  rmSync(join(folder, 'rm.pid'))
  mkdirSync(join(folder, 'rm.pid', 'file'), { recursive: true })
  process.kill(found.pid, 'SIGKILL')
  expect(await launched.ended).toMatchObject({ signal: 'SIGKILL' })
})

test.each(['running', 'ended'])(
  'the keeper of a launched process (%s) has ended before the next launch',
  async (state) => {
    // The keeper waits for the last output, because a process outside the group holds the pipe.
    const script = `require('node:child_process').spawn(process.execPath, ${JSON.stringify([...SILENT.slice(1), dataDir])},
      { detached: true, stdio: 'inherit' })
    setInterval(() => {}, 1_000)`
    const found = await launchedByTheDead(60_000, [process.execPath, '-e', script])
    claimLaunched(dataDir)
    await waitFor('its child', isMarkedRunning, PATIENCE_MS)
    if (state === 'ended') {
      process.kill(found.pid, 'SIGKILL')
      await waitFor('its end', () => !isRunning(found), PATIENCE_MS)
    }
    await endLeftovers(folder, PATIENCE_MS, () => false)
    expect(isRunning(found.keeper)).toBe(false)
  },
)

test('a record that cannot be deleted does not prevent a start of the service', async () => {
  mkdirSync(join(folder, 'rm.pid'), { recursive: true })
  expect(await endLeftovers(folder, 1_000, () => false)).toEqual([])
})

test('a launched process ends if its keeper is killed', async () => {
  const launched = LaunchedProcess.start(folder, COMMAND, 1_000)
  const found = await running()
  process.kill(found.keeper.pid, 'SIGKILL')
  await launched.ended
  await waitFor('its end', () => !isRunning(found), PATIENCE_MS)
})

test('a launched process is taken over from a dead service and stopped by the new one', async () => {
  const found = await launchedByTheDead(60_000)
  claimLaunched(dataDir)
  expect(isOwnedByAnother(folder, 'rm')).toBe(false)
  expect(await endLeftovers(folder, 1_000, (_, { fingerprint }) => fingerprint === 'one')).toEqual(
    [],
  )
  const adopted = LaunchedProcess.adopt(folder, 'rm') as LaunchedProcess
  expect(adopted.pid).toBe(found.pid)
  await adopted.stop(5_000)
  expect(isRunning(found)).toBe(false)
  expect((await adopted.ended).signal).toBe('SIGTERM')
})

test('a launched process belongs to the service that takes it over without having claimed it', async () => {
  await launchedByTheDead(60_000)
  const adopted = LaunchedProcess.adopt(folder, 'rm') as LaunchedProcess
  expect(livingOwner(folder, 'rm')).toEqual(markOf(process.pid))
  await adopted.stop(5_000)
})

test('a launched process is taken over even if its new owner cannot be recorded', async () => {
  const found = await launchedByTheDead(60_000)
  rmSync(join(folder, 'rm.owner'))
  mkdirSync(join(folder, 'rm.owner'))
  claimLaunched(dataDir)
  const adopted = LaunchedProcess.adopt(folder, 'rm') as LaunchedProcess
  await adopted.stop(5_000)
  expect(isRunning(found)).toBe(false)
})

test('a launched process is ended by the next start of the service if that would start a different one', async () => {
  const found = await launchedByTheDead(60_000)
  claimLaunched(dataDir)
  expect(await endLeftovers(folder, 5_000, (_, { fingerprint }) => fingerprint === 'two')).toEqual([
    'rm',
  ])
  await waitFor('its end', () => !isRunning(found), PATIENCE_MS)
})

test('a launched process that no service takes over is ended by its keeper', async () => {
  const found = await launchedByTheDead(1_000)
  await waitFor('its end', () => !isRunning(found) && !isRunning(found.keeper), PATIENCE_MS)
  expect(logText()).toMatch(/no service took over this server/)
})

itInFullRun('a launched process of a paused (SIGSTOP) service stays with it', async () => {
  const launched = LaunchedProcess.start(folder, COMMAND, 1_000, 1_000)
  const found = await running()
  const halted = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  try {
    const mark = await waitFor('a process', () => markOf(halted.pid as number))
    writeRecord(join(folder, 'rm.owner'), mark)
    process.kill(halted.pid as number, 'SIGSTOP')
    const begun = performance.now()
    // The loop takes more than three times as long as a keeper waits before it ends a server without an owner.
    while (performance.now() - begun < 3_500) {
      expect(isRunning(found)).toBe(true)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    expect(isOwnedByAnother(folder, 'rm')).toBe(true)
  } finally {
    halted.kill('SIGKILL')
  }
  await launched.stop(5_000)
})
