// The entry point of package.json's scripts: sets up what the command needs, then continues under Node 24. It is plain
// JavaScript without packages for any Node >= 20, because a fresh clone has no installed packages.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isInstalledPackage, SetupError, setUp, stopSetUp } from './setup.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * `node`: command-line options of Node. `watched`: Node runs and restarts the entry in its own child process.
 * Entries begin with `./`, because packages/pack.ts renames `.ts` to `.js` only in imports and relative paths.
 * @type {Record<string, { entry: string, needs?: object, env?: object, node?: string[], args?: string[], watched?: boolean }>}
 */
const COMMANDS = {
  start: { entry: './server/start.ts', needs: { pages: true }, env: { NODE_ENV: 'production' } },
  // --watch instead of --watch-path would restart on every page compiled into .next.
  dev: {
    entry: './server/start.ts',
    node: ['--watch-path=./server'],
    watched: true,
    env: { NODE_ENV: 'development' },
  },
  sandbox: { entry: './server/sandbox/start.ts', env: { NODE_ENV: 'production' } },
  worker: { entry: './server/worker/start.ts', env: { NODE_ENV: 'production' } },
  demo: { entry: './examples/demo.ts', needs: { pages: true }, env: { NODE_ENV: 'production' } },
  bench: { entry: './bench/main.ts', needs: { pages: true }, env: { NODE_ENV: 'production' } },
  backup: { entry: './scripts/backup.ts' },
  restore: { entry: './scripts/restore.ts' },
  seed: { entry: './scripts/seed.ts' },
  pack: { entry: './packages/pack.ts', needs: { pages: true } },
  check: { entry: './scripts/test.ts', args: ['--static'] },
  test: { entry: './scripts/test.ts', needs: { pages: true, chromium: true } },
  'test:full': {
    entry: './scripts/test.ts',
    needs: { pages: true, chromium: true },
    env: { REWARDOPS_TEST_FULL: '1' },
  },
  'test:chaos': { entry: './testkit/chaos/main.ts' },
  'test:trainers': { entry: './scripts/test-trainers.ts' },
  'test:engines': { entry: './testkit/engines/main.ts' },
}

/** A Ctrl-C arrives twice: from the terminal, and from npm. Equal signals within this time count as one. */
const SAME_SIGNAL_MS = 1_000
const PARENT_POLL_MS = 200
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP']

const lastAt = new Map()
const forwarded = new Set()
/** Receiver of signals: the set-up, then the entry. */
let onSignal = stopSetUp

for (const signal of FORWARDED) {
  process.on(signal, () => {
    const now = performance.now()
    if (now - (lastAt.get(signal) ?? -Infinity) < SAME_SIGNAL_MS) return
    lastAt.set(signal, now)
    forwarded.add(signal)
    onSignal(signal)
  })
}

async function main([name = '', ...given]) {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!command) {
    throw new SetupError(
      `usage: node scripts/run.mjs <${Object.keys(COMMANDS).join(' | ')}> [arguments]`,
    )
  }
  // Commands of an installed package run in the caller's folder, which holds the data.
  if (!isInstalledPackage(root)) process.chdir(root)
  const node = await setUp(root, command.needs ?? {})
  // Signals that arrived during the set-up are handled before the entry starts.
  await new Promise((resolve) => setImmediate(resolve))
  if (forwarded.size > 0) return 0
  return run(node, command, given)
}

function run(node, { entry, node: options = [], args = [], env = {}, watched = false }, given) {
  const path = [join(root, 'node_modules/.bin'), process.env.PATH].filter(Boolean).join(delimiter)
  // A watched entry is a grandchild of this process and does not inherit the pipe. Its descriptor 3 would be another
  // file.
  const tied = watched ? [] : ['--import', new URL('exit-with-parent.mjs', import.meta.url).href]
  const child = spawn(node, [...tied, ...options, join(root, entry), ...args, ...given], {
    stdio: ['inherit', 'inherit', 'inherit', watched ? 'ignore' : 'pipe'],
    env: {
      NEXT_TELEMETRY_DISABLED: '1',
      // Every process loads about 300 files; the compile cache saves 0.2 s of 0.45 s.
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node-compile'),
      ...process.env,
      PATH: path,
      ...env,
      ...(watched ? {} : { EXIT_WITH_PARENT_FD: '3' }),
    },
    // The entry gets its own process group, so that signals from the terminal reach it only once, through this process.
    detached: true,
  })
  onSignal = (signal) => child.kill(signal)
  // npm signals the shell between itself and this process, and dash exits without forwarding the signal. This process
  // therefore polls for the end of the shell.
  const parent = process.ppid
  if (process.env.npm_lifecycle_event) {
    const poll = setInterval(() => {
      if (process.ppid === parent) return
      clearInterval(poll)
      forwarded.add('SIGTERM')
      child.kill('SIGTERM')
    }, PARENT_POLL_MS).unref()
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      // A forwarded signal kills the entry only if Node has not yet run the first line of the entry. Nothing needs
      // cleaning up then, so this is not a failure.
      if (signal !== null && signal !== 'SIGHUP' && forwarded.has(signal)) resolve(0)
      else resolve(code ?? 128 + constants.signals[signal])
    })
  })
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  if (forwarded.size === 0) process.stderr.write(`${error.message}\n`)
  process.exitCode = forwarded.size === 0 ? 1 : 0
}
