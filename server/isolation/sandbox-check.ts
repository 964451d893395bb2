import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type SandboxOptions, spawnSandboxed } from './sandbox.ts'
import { isFilteredArch } from './seccomp.ts'
import { systemProgram } from './system-program.ts'

/** Whether sandboxes can run on this machine. `remedy`: what an admin has to install or grant. */
export type SandboxCheck = { ok: true } | { ok: false; reason: string; remedy: string }

const TIMEOUT_MS = 10_000

/** Remedies by the error message of bubblewrap. */
const REMEDIES: [RegExp, string][] = [
  [/Unknown option/, 'Install bubblewrap 0.7 or newer.'],
  [
    /Can't mount proc/,
    'Let the container mount /proc: run it with `--security-opt systempaths=unconfined` (Docker) or `procMount: Unmasked` (Kubernetes).',
  ],
  [
    /namespace|RTM_NEW|uid map|setting up|mount propagation|Operation not permitted/i,
    [
      'Allow unprivileged user namespaces: `sysctl kernel.unprivileged_userns_clone=1` (Debian),',
      '`sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap (Ubuntu),',
      '`sysctl user.max_user_namespaces=10000` (Red Hat); in a container,',
      '`--security-opt seccomp=unconfined --security-opt apparmor=unconfined` or a profile that allows them.',
    ].join(' '),
  ],
  [
    /Permission denied|No such file/,
    'Make the named path readable for the user that functions run as.',
  ],
]

/**
 * Runs a sandbox once and checks in its /proc that the filter is active and no capability is left. `using`: options of
 * the caller's sandboxes, so that the check also reports a folder that the sandboxes' user cannot read.
 */
export async function checkSandbox(
  using: Pick<SandboxOptions, 'user'> & Partial<Pick<SandboxOptions, 'binds' | 'network'>> = {},
): Promise<SandboxCheck> {
  const refused = (reason: string, remedy: string) => ({ ok: false as const, reason, remedy })
  if (process.platform !== 'linux') {
    return refused(
      `Sandboxes need Linux, and this is ${process.platform}.`,
      'Run the service on Linux.',
    )
  }
  if (!isFilteredArch(process.arch)) {
    const reason = `There is no filter of system calls for ${process.arch}.`
    return refused(reason, 'Run the service on x86-64 or arm64.')
  }
  if (systemProgram('bwrap') === null) {
    const remedy = 'Install the package bubblewrap, for example `apt-get install bubblewrap`.'
    return refused('bubblewrap (bwrap) is not installed.', remedy)
  }
  const child = spawnSandboxed(['cat', '/proc/self/status'], {
    binds: [],
    network: 'none',
    ...using,
    env: { PATH: '/usr/bin:/bin' },
    tmpBytes: 1 << 20,
    limits: { openFiles: 256, processes: 64 },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const late = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS)
  const failed = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`bwrap: ${error.message}`))
  })
  const ended = Promise.all([text(child.stdout as Readable), text(child.stderr as Readable)])
  const [status, problem] = await Promise.race([
    ended,
    failed.then((message) => ['', message] as const),
  ]).finally(() => clearTimeout(late))
  if (/^NoNewPrivs:\s*1$/m.test(status) && /^Seccomp:\s*2$/m.test(status)) {
    if (/^CapEff:\s*0+$/m.test(status)) return { ok: true }
  }
  const line = problem.trim().split('\n')[0] || 'it ended without an answer.'
  const remedy = REMEDIES.find(([pattern]) => pattern.test(problem))?.[1]
  return refused(
    `A sandbox cannot be started here: ${line}`,
    remedy ?? 'Run `bwrap --unshare-all --ro-bind / / true` to see what this machine refuses.',
  )
}
