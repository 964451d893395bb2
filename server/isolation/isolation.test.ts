import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { getPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { HAS_PID_NAMESPACES, runAsTwinContainer } from '../../testkit/processes/pid-namespace.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { PID_SPACE } from '../process-host.ts'
import { findCgroups, ownGroups } from './cgroups.ts'
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

test('temporary folders of killed services are removed, and no others', async () => {
  const ended = spawnSync('true').pid
  const twin = PID_SPACE.replace(/\d*$/, '1')
  const names = [
    `${PID_SPACE}-${ended}`,
    ...[`0.1-${ended}`, `${twin}-${ended + 1}`],
    ...[`${PID_SPACE}-${process.pid}`, `${twin}-${ended}`],
  ]
  const paths = names.map((name) => join(tmpdir(), `${FOLDER_PREFIX}${name}-test`))
  for (const path of paths) mkdirSync(path)
  const twoDaysAgo = Date.now() / 1_000 - 172_800
  utimesSync(paths[2] as string, twoDaysAgo, twoDaysAgo)
  try {
    await planIsolation({ ...PLAN, paths: [] })
    const left = names.filter((_, at) => existsSync(paths[at] as string))
    expect(left).toEqual([`${PID_SPACE}-${process.pid}`, `${twin}-${ended}`])
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

test('a process is not in the tree because its parent got the id of an ended member', async () => {
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] })
  const over: string[] = []
  const tree = new ProcessTree(child, {
    limits: { memoryBytes: 1 << 20, processes: 10, diskBytes: 1 << 20 },
    ...{ cgroups: null, user: null, hasNamespace: false },
    folder: join(tmpdir(), `rewardops-no-folder-${child.pid}`),
    onOver: (detail) => over.push(detail),
  })
  // Ids above Linux's highest, so that no process of this machine is meant.
  const [member, other] = [2 ** 22 + 1, 2 ** 22 + 2]
  const entry = (pid: number, parent: number, startedAt: string, memoryBytes = 0) => ({
    ...{ pid, parent, startedAt, memoryBytes, uid: 0, threads: 1 },
  })
  const root = entry(child.pid as number, process.pid, '0')
  tree.look([root, entry(member, root.pid, '1')])
  tree.look([root, entry(member, 1, '9'), entry(other, member, '9', 1 << 30)])
  expect(over).toEqual([])
  const grown = [root, entry(member, root.pid, '9'), entry(other, member, '9', 1 << 30)]
  tree.look(grown)
  tree.look(grown)
  expect(over).toHaveLength(1)
  const ended = once(child, 'exit')
  child.kill()
  await ended
  await tree.close()
})

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
