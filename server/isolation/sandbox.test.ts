import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, describe, expect, test } from 'vitest'
import { type SandboxOptions, spawnSandboxed } from './sandbox.ts'
import { checkSandbox } from './sandbox-check.ts'
import { CHECKED_CALLS, DENIED_CALLS, type FilteredArch, seccompFilter } from './seccomp.ts'

const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined
const check = await checkSandbox({ user })
if (!check.ok) console.warn(`vitest: sandboxes are not tested. ${check.reason} ${check.remedy}`)
const PERL = '/usr/bin/perl'

const folder = mkdtempSync(join(tmpdir(), 'rewardops-sandbox-'))
// The sandbox's user must be able to enter the folder.
chmodSync(folder, 0o755)
mkdirSync(join(folder, 'readable'))
writeFileSync(join(folder, 'readable/file'), 'from outside')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function inSandbox(script: string, options: Partial<SandboxOptions> = {}) {
  return outcomeOf(['sh', '-c', script], options)
}

async function outcomeOf(command: [string, ...string[]], options: Partial<SandboxOptions> = {}) {
  const child = spawnSandboxed(command, {
    binds: [],
    env: { PATH: '/usr/bin:/bin' },
    tmpBytes: 1 << 20,
    network: 'none',
    limits: {},
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(user && { user }),
    ...options,
  })
  const [out, error, [code]] = await Promise.all([
    text(child.stdout as NonNullable<typeof child.stdout>),
    text(child.stderr as NonNullable<typeof child.stderr>),
    once(child, 'exit') as Promise<[number | null]>,
  ])
  return { code, out, error }
}

describe.skipIf(!check.ok)('a sandbox', () => {
  test('shows given folders read-only, and nothing else of the machine', async () => {
    const from = join(folder, 'readable')
    const script = `cat /given/file; ls -A / /home /root ${folder} 2>/dev/null; echo x >/given/file`
    const { code, out, error } = await inSandbox(script, { binds: [{ from, to: '/given' }] })
    expect(out).toContain('from outside')
    expect(out).not.toMatch(/home|root|work|var/)
    expect(error).toMatch(/Read-only file system/)
    expect(code).not.toBe(0)
  })

  test('can write only to /tmp and /dev/shm, up to their sizes', async () => {
    const script = `for at in / /dev /usr /etc /proc/sys/kernel /tmp /dev/shm; do
      (echo x >$at/written) 2>/dev/null && echo "wrote $at"
    done
    for at in /tmp /dev/shm; do
      head -c 4000000 /dev/zero >$at/big 2>/dev/null; wc -c <$at/big
    done`
    const { out } = await inSandbox(script)
    const [first, second, ...sizes] = out.trim().split('\n')
    expect([first, second]).toEqual(['wrote /tmp', 'wrote /dev/shm'])
    expect(sizes.map(Number).every((bytes) => bytes <= 1 << 20)).toBe(true)
  })

  test('sees no process outside and no network', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const ids = await inSandbox('ls /proc | grep -c "^[0-9]"; ls /sys/class/net /proc/1/root')
    expect(Number(ids.out.split('\n')[0])).toBeLessThan(8)
    const connect = `use IO::Socket::INET;
      print IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}") ? "reached" : "refused"`
    if (existsSync(PERL)) {
      expect((await outcomeOf([PERL, '-e', connect])).out).toBe('refused')
      expect((await outcomeOf([PERL, '-e', connect], { network: 'open' })).out).toBe('reached')
    }
    server.close()
  })

  test('has no secret in its arguments or environment but the given variables', async () => {
    const { out } = await inSandbox('env; tr "\\0" " " </proc/1/cmdline', {
      env: { PATH: '/usr/bin:/bin', GIVEN: 'a value' },
    })
    const names = out.split('\n').flatMap((line) => /^([A-Z_]+)=/.exec(line)?.[1] ?? [])
    expect(names.filter((name) => !['PWD', 'OLDPWD', '_', 'SHLVL'].includes(name)).sort()).toEqual([
      'GIVEN',
      'PATH',
    ])
    expect(out.match(/a value/g)).toHaveLength(1)
  })

  test.skipIf(!existsSync(PERL))('denies every call that the filter lists', async () => {
    const arch = process.arch as FilteredArch
    const numbers = Object.values(DENIED_CALLS).flatMap((of) => of[arch] ?? [])
    const script = `
      for my $nr (${numbers}) { syscall($nr, 0, 0, 0, 0, 0, 0); print $! + 0, " " }
      print syscall(${CHECKED_CALLS.clone[arch]}, 0x10000000, 0, 0, 0, 0), ":", $! + 0, " ";
      print syscall(${CHECKED_CALLS.clone3[arch]}, 0, 0), ":", $! + 0, " ";
      print syscall(${CHECKED_CALLS.socket[arch]}, 40, 1, 0), ":", $! + 0;`
    const { out } = await outcomeOf([PERL, '-e', script])
    expect(out).toBe(`${'1 '.repeat(numbers.length)}-1:1 -1:38 -1:97`)
  })

  test('enforces the limits', async () => {
    const script = 'ulimit -c; ulimit -n; ulimit -t; ulimit -f; ulimit -v'
    const limits = { cpuSeconds: 9, fileBytes: 1 << 20, openFiles: 99, addressSpaceBytes: 1 << 30 }
    const { out } = await inSandbox(script, { limits })
    expect(out.trim().split('\n').map(Number)).toEqual([0, 99, 9, 2_048, 1_048_576])
    const forks =
      'i=0; while [ $i -lt 30 ]; do sleep 9 & i=$((i + 1)); done; wc -w </proc/1/task/1/children'
    expect((await inSandbox(forks, { limits: { processes: 10 } })).error).toMatch(/fork/)
  })

  test('ends with everything that it started', async () => {
    const child = spawnSandboxed(['sh', '-c', 'setsid sleep 1000 & echo started; wait'], {
      binds: [],
      env: { PATH: '/usr/bin:/bin' },
      tmpBytes: 1 << 20,
      network: 'none',
      limits: {},
      stdio: ['ignore', 'pipe', 'inherit'],
      ...(user && { user }),
    })
    const output = child.stdout as NonNullable<typeof child.stdout>
    await once(output, 'data')
    child.kill('SIGKILL')
    // The output ends when the last process that holds the pipe has ended.
    await once(output.resume(), 'end')
  })

  test('is reported as missing with a reason and a remedy', async () => {
    const binds = [{ from: '/nowhere' }]
    const found = await checkSandbox({ ...(user && { user }), binds })
    expect(found).toEqual({
      ok: false,
      reason: expect.stringContaining('/nowhere'),
      remedy: expect.stringContaining('readable'),
    })
  })
})

function verdictOf(filter: Buffer, data: { nr: number; arch: number; args?: number[] }): number {
  const fields = new Map([
    [0, data.nr],
    [4, data.arch],
    ...(data.args ?? []).map((value, i) => [16 + 8 * i, value] as const),
  ])
  let loaded = 0
  for (let at = 0; ; at++) {
    const code = filter.readUInt16LE(8 * at)
    const k = filter.readUInt32LE(8 * at + 4)
    const holds = code === 0x15 ? loaded === k : code === 0x35 ? loaded >= k : (loaded & k) !== 0
    if (code === 0x06) return k
    if (code === 0x20) loaded = fields.get(k) ?? 0
    else at += filter.readUInt8(8 * at + (holds ? 2 : 3))
  }
}

describe.each([
  ['x64' as const, 0xc000_003e],
  ['arm64' as const, 0xc000_00b7],
])('the filter of %s', (arch, audit) => {
  const ALLOW = 0x7fff_0000
  const error = (errno: number) => 0x5_0000 | errno
  const of = (nr: number, args?: number[], of = audit) =>
    verdictOf(seccompFilter(arch), { nr, arch: of, ...(args && { args }) })

  test('denies the listed calls and the calls of other architectures', () => {
    for (const [name, numbers] of Object.entries(DENIED_CALLS)) {
      const nr = numbers[arch]
      if (nr !== null) expect([name, of(nr)]).toEqual([name, error(1)])
    }
    expect(of(0, [], 0x4000_0003)).toBe(error(1))
    if (arch === 'x64') expect(of(0x4000_0000 + 101)).toBe(error(1))
  })

  test('checks clone, clone3, socket and ioctl by their arguments', () => {
    const { clone, clone3, socket, ioctl } = CHECKED_CALLS
    expect(of(clone[arch], [0x11])).toBe(ALLOW)
    for (const bit of [17, 25, 26, 27, 28, 29, 30]) {
      expect(of(clone[arch], [0x11 + 2 ** bit])).toBe(error(1))
    }
    expect(of(clone3[arch])).toBe(error(38))
    expect([1, 2, 10, 16].map((family) => of(socket[arch], [family]))).toEqual(Array(4).fill(ALLOW))
    expect([17, 38, 40].map((family) => of(socket[arch], [family]))).toEqual(
      Array(3).fill(error(97)),
    )
    expect(of(ioctl[arch], [0, 0x5401])).toBe(ALLOW)
    expect(of(ioctl[arch], [0, 0x5412])).toBe(error(1))
  })

  test('allows ordinary calls', () => {
    // read, write, mmap, futex, execve and exit_group.
    const ordinary = { x64: [0, 1, 9, 202, 59, 231], arm64: [63, 64, 222, 98, 221, 94] }[arch]
    expect(ordinary.map((nr) => of(nr))).toEqual(Array(6).fill(ALLOW))
  })
})
