import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  utimesSync,
} from 'node:fs'
import { getPriority, hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { HAS_PID_NAMESPACES, runAsTwinContainer } from '../../testkit/processes/pid-namespace.ts'
import { processesAbout } from '../../testkit/service/process-tree.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { PID_SPACE } from '../process-host.ts'
import { readProcFile, sendKill } from '../process-signals.ts'
import { findCgroups, ownGroups, removeLeftGroups } from './cgroups.ts'
import { FOLDER_PREFIX, planIsolation, startIsolated } from './isolation.ts'
import { ProcessTree } from './process-tree.ts'

const PLAN = { level: 'process', network: 'router' } as const

test('a plan names the folder that function users cannot read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-closed-'))
  try {
    const path = join(folder, 'file')
    mkdirSync(path)
    const { user, missing } = await planIsolation({ ...PLAN, paths: [path] })
    if (process.getuid?.() !== 0) expect(user).not.toBe('function')
    else {
      expect(user).toBe('own')
      expect(missing).toEqual([expect.stringContaining(path)])
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})

function makeOld(path: string): void {
  const twoDaysAgo = Date.now() / 1_000 - 172_800
  utimesSync(path, twoDaysAgo, twoDaysAgo)
}

test('temporary folders of killed services are removed, and no others', async () => {
  const ended = spawnSync('true').pid
  const twin = PID_SPACE.replace(/[\da-f]*$/, '1')
  // Other machines with this host name may share the parent folder.
  const otherMachine = '0.1'
  const removed = [`${PID_SPACE}-${ended}`]
  const removedWhenOld = [`${twin}-${ended + 1}`, `${otherMachine}-${ended + 1}`]
  const kept = [`${PID_SPACE}-${process.pid}`, `${twin}-${ended}`, `${otherMachine}-${ended}`]
  const pathOf = (name: string) => join(tmpdir(), `${FOLDER_PREFIX}${name}-test`)
  const paths = [...removed, ...removedWhenOld, ...kept].map(pathOf)
  for (const path of paths) mkdirSync(path)
  for (const name of removedWhenOld) makeOld(pathOf(name))
  try {
    await planIsolation({ ...PLAN, paths: [] })
    expect(paths.filter((path) => existsSync(path))).toEqual(kept.map(pathOf))
  } finally {
    for (const path of paths) rmSync(path, { recursive: true, force: true })
  }
})

test('old temporary folders of an earlier version of the service are removed', async () => {
  const ended = spawnSync('true').pid
  const pathOf = (id: string) => join(tmpdir(), `rewardops-function-${hostname()}-${id}`)
  const removed = pathOf(`${ended}-old`)
  const kept = [pathOf(`${ended}-new`), pathOf(`${process.pid}-old`)]
  const paths = [removed, ...kept]
  for (const path of paths) mkdirSync(path)
  for (const path of [removed, kept[1] as string]) makeOld(path)
  try {
    await planIsolation({ ...PLAN, paths: [] })
    expect(paths.filter((path) => existsSync(path))).toEqual(kept)
  } finally {
    for (const path of paths) rmSync(path, { recursive: true, force: true })
  }
})

test.skipIf(!HAS_PID_NAMESPACES)(
  'a function of another container with the same host name keeps its temporary folder',
  async () => {
    const script = `
      import { startIsolated } from ${JSON.stringify(new URL('./isolation.ts', import.meta.url))}
      const plan = { level: 'process', network: 'router', user: 'own', noNewPrivileges: false, cgroups: null }
      const { child } = startIsolated({ ...plan, sandbox: null, missing: [] }, {
        command: ['/bin/sh', '-c', 'echo "$TMPDIR"; read line'],
        ...{ level: 'process', env: { PATH: '/usr/bin:/bin' }, stdio: ['pipe', 'pipe', 'ignore'] },
        ...{ memoryBytes: 2 ** 50, binds: [], folderInside: '/tmp', onOver: () => {} },
      })
      child.stdout.pipe(process.stdout)`
    const { process: service, line: folder } = await runAsTwinContainer(
      script,
      spawnSync('true').pid,
    )
    try {
      await planIsolation({ ...PLAN, paths: [] })
      expect(existsSync(folder)).toBe(true)
    } finally {
      const ended = once(service, 'exit')
      service.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    }
  },
)

test.skipIf(process.platform !== 'linux')(
  'a new session started by a process without a control group has low CPU priority too',
  async () => {
    const plan = await planIsolation({ ...PLAN, paths: [] })
    const started = startIsolated(
      { ...plan, cgroups: null },
      {
        command: ['/bin/sh', '-c', "setsid sh -c 'echo $$; read line'"],
        ...{ level: 'process', env: { PATH: '/usr/bin:/bin' }, stdio: ['pipe', 'pipe', 'ignore'] },
        ...{ memoryBytes: 1 << 20, binds: [], folderInside: '/tmp', onOver: () => {} },
      },
    )
    const [line] = (await once(started.child.stdout as Readable, 'data')) as [Buffer]
    const pid = Number(line)
    const file = `/proc/${pid}/autogroup`
    const yields = () =>
      getPriority(pid) === 6 && (!existsSync(file) || readFileSync(file, 'utf8').includes('nice 6'))
    await waitFor('it to yield', yields)
    started.kill()
    await started.closed
  },
)

/** A tree without a control group, with a memory limit of 1 MiB. `over` lists the limits that the tree exceeded. */
function watchedTree() {
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] })
  const over: string[] = []
  const tree = new ProcessTree(child, {
    limits: { memoryBytes: 1 << 20, processes: 10, diskBytes: 1 << 20 },
    ...{ cgroups: null, user: null, hasNamespace: false },
    folder: join(tmpdir(), `rewardops-no-folder-${child.pid}`),
    onOver: (detail) => over.push(detail),
  })
  const end = async () => {
    const ended = child.exitCode === null && child.signalCode === null && once(child, 'exit')
    child.kill()
    await ended
  }
  return { tree, over, end, pid: child.pid as number }
}

const entry = (pid: number, parent: number, startedAt: string, memoryBytes = 0) => ({
  ...{ pid, parent, startedAt, memoryBytes, uid: 0, threads: 1 },
})
// Pids above Linux's maximum, so that no process of this machine has them.
const [member, other] = [2 ** 22 + 1, 2 ** 22 + 2] as const

test('a process is not in the tree because its parent got the id of an ended member', async () => {
  const { tree, over, end, pid } = watchedTree()
  const root = entry(pid, process.pid, '0')
  tree.look([root, entry(member, root.pid, '1')])
  tree.look([root, entry(member, 1, '9'), entry(other, member, '9', 1 << 30)])
  expect(over).toEqual([])
  await end()
  await tree.close()
})

test('a process is not in the tree because it got the id of the ended first process', async () => {
  const { tree, over, end, pid } = watchedTree()
  tree.look([entry(pid, process.pid, '0')])
  await end()
  tree.look([entry(pid, 1, '9', 1 << 30), entry(other, pid, '9', 1 << 30)])
  expect(over).toEqual([])
  await tree.close()
})

test('a process is in the tree as soon as it is listed, even before its new parent', async () => {
  const { tree, over, end, pid } = watchedTree()
  const root = entry(pid, process.pid, '0')
  tree.look([entry(other, member, '2', 1 << 30), root, entry(member, root.pid, '1')])
  expect(over).toHaveLength(1)
  await end()
  await tree.close()
})

test.skipIf(process.platform !== 'linux')(
  'a process that detached just before the kill ends too, with the processes that it is starting',
  async () => {
    const plan = await planIsolation({ ...PLAN, paths: [] })
    const duration = `1000.${process.pid}`
    const script = `echo started; i=0; while [ $i -lt 200 ]; do sleep ${duration} & i=$((i + 1)); done; wait`
    const started = startIsolated(
      { ...plan, cgroups: null, user: 'own' },
      {
        command: ['/bin/sh', '-c', `setsid sh -c '${script}' & read line`],
        ...{ level: 'process', env: { PATH: '/usr/bin:/bin' }, stdio: ['pipe', 'pipe', 'ignore'] },
        ...{ memoryBytes: 1 << 30, binds: [], folderInside: '/tmp', onOver: () => {} },
      },
    )
    try {
      await once(started.child.stdout as Readable, 'data')
      started.kill()
      await started.closed
      await waitFor('their end', () => processesAbout(duration).length === 0, 5_000)
    } finally {
      for (const { pid } of processesAbout(duration)) sendKill(pid)
    }
  },
)

const python = spawnSync('python3', ['-c', ''])

/** Blocks this process until another process has ended, so that this process kills the next one only afterwards. */
function waitUntilEnded(pid: number): void {
  const until = performance.now() + 5_000
  const isEnded = () => /\) [ZX] /.test(readProcFile(`/proc/${pid}/stat`) ?? ') X ')
  while (!isEnded() && performance.now() < until) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  }
}

test.skipIf(process.platform !== 'linux' || python.status !== 0)(
  'no stopped process continues when a process that was killed before it ends',
  async () => {
    const plan = await planIsolation({ ...PLAN, paths: [] })
    const duration = `1000.${process.pid}`
    // When the first process ends, the process groups of the others become orphaned, so the kernel continues stopped
    // processes in these groups.
    const script = `
import os, signal
def detach(*_):
    if os.fork() == 0:
        os.setsid()
        os.execvp('sleep', ['sleep', '${duration}'])
reader, writer = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCONT, detach)
        os.write(writer, b'.')
        while True:
            signal.pause()
ready = 0
while ready < 4:
    ready += len(os.read(reader, 1))
print('ready', flush=True)
signal.pause()`
    const kill = process.kill.bind(process)
    const killSlowly = vi.spyOn(process, 'kill')
    const started = startIsolated(
      { ...plan, cgroups: null, user: 'own' },
      {
        command: ['python3', '-c', script],
        ...{ level: 'process', env: { PATH: process.env.PATH ?? '' } },
        ...{ stdio: ['pipe', 'pipe', 'ignore'], memoryBytes: 2 ** 40 },
        ...{ binds: [], folderInside: '/tmp', onOver: () => {} },
      },
    )
    try {
      await once(started.child.stdout as Readable, 'data')
      killSlowly.mockImplementation((pid, signal) => {
        kill(pid, signal)
        if (signal === 'SIGKILL' && pid > 0) waitUntilEnded(pid)
        return true
      })
      started.kill()
      await started.closed
      killSlowly.mockRestore()
      await waitFor('their end', () => processesAbout(duration).length === 0, 5_000)
    } finally {
      killSlowly.mockRestore()
      for (const { pid } of processesAbout(duration)) sendKill(pid)
    }
  },
)

test('the v2 control group of a process is found in the text that the kernel writes', () => {
  const text = '4:memory:/a\n1:cpu,cpuacct:/b:c\n0::/system.slice/rewardops.service\n'
  expect([...ownGroups(text)]).toEqual([
    ['memory', '/a'],
    ['cpu,cpuacct', '/b:c'],
    ['', '/system.slice/rewardops.service'],
  ])
})

test('control groups that cannot be created are not used', () => {
  const mounts = '41 31 0:37 / /nowhere/unified rw,relatime - cgroup2 cgroup2 rw'
  expect(findCgroups(mounts, '0::/service')).toBeNull()
  expect(findCgroups('', '')).toBeNull()
})

const cgroups = findCgroups()

test.skipIf(cgroups === null)(
  'control groups are used even if a process with the same id checks them in another container',
  () => {
    const probes = cgroups!.folders.map((at) => join(at, `rewardops-${process.pid}-probe`))
    for (const probe of new Set(probes)) mkdirSync(probe)
    try {
      expect(findCgroups()).toEqual(cgroups)
    } finally {
      for (const probe of new Set(probes)) rmdirSync(probe)
    }
  },
)

test('a new control group of another container is kept, because it has no process yet', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-groups-'))
  const twin = PID_SPACE.replace(/[\da-f]*$/, '1')
  const [old, young] = [`rewardops-${twin}-1-1`, `rewardops-${twin}-1-2`]
  for (const name of [old, young]) mkdirSync(join(folder, name))
  makeOld(join(folder, old))
  try {
    await removeLeftGroups({ version: 1, folders: [folder] })
    expect(readdirSync(folder)).toEqual([young])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
