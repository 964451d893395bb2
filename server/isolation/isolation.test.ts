import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { getPriority, hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { findCgroups, ownGroups } from './cgroups.ts'
import { planIsolation, startIsolated } from './isolation.ts'
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
  const names = [ended, process.pid].map((pid) => `rewardops-function-${hostname()}-${pid}-test`)
  const [left, live] = names.map((name) => join(tmpdir(), name)) as [string, string]
  for (const path of [left, live]) mkdirSync(path)
  try {
    await planIsolation({ ...PLAN, paths: [] })
    expect([existsSync(left), existsSync(live)]).toEqual([false, true])
  } finally {
    for (const path of [left, live]) rmSync(path, { recursive: true, force: true })
  }
})

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
