// The one entry behind package.json's scripts: sets up what the command needs, then goes on under Node 24.
// Plain JavaScript on built-ins, because in a fresh clone there is nothing else, and any Node >= 20.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SetupError, setUp, stopSetUp } from './setup.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * `node`: options of Node's own. `watched`: Node restarts the entry by itself, in a child of its own.
 * @type {Record<string, { entry: string, needs?: object, env?: object, node?: string[], args?: string[], watched?: boolean }>}
 */
const COMMANDS = {
  start: { entry: 'server/start.ts', needs: { pages: true }, env: { NODE_ENV: 'production' } },
  // --watch-path, not --watch: that one restarts on every page compiled into .next.
  dev: {
    entry: 'server/start.ts',
    node: ['--watch-path=./server'],
    watched: true,
    env: { NODE_ENV: 'development' },
  },
  worker: { entry: 'server/worker/start.ts', env: { NODE_ENV: 'production' } },
  demo: { entry: 'examples/demo.ts', needs: { pages: true }, env: { NODE_ENV: 'production' } },
  bench: { entry: 'bench/main.ts', needs: { pages: true }, env: { NODE_ENV: 'production' } },
  seed: { entry: 'scripts/seed.ts' },
  check: { entry: 'scripts/test.ts', args: ['--static'] },
  test: { entry: 'scripts/test.ts', needs: { pages: true, chromium: true } },
  'test:full': {
    entry: 'scripts/test.ts',
    needs: { pages: true, chromium: true },
    env: { REWARDOPS_TEST_FULL: '1' },
  },
  'test:chaos': { entry: 'testkit/chaos/main.ts' },
  'test:trainers': { entry: 'scripts/test-trainers.ts' },
  'test:engines': { entry: 'testkit/engines/main.ts' },
}

/** Ctrl-C reaches us from the terminal and once more from npm, which passes it on; it is meant once. */
const SAME_SIGNAL_MS = 1_000
const PARENT_POLL_MS = 200
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Signals that we were sent, each with the time of the last one. */
const lastAt = new Map()
/** Signals that the entry was sent by us. */
const asked = new Set()
/** Who gets a signal: the set-up, then the entry. */
let onSignal = stopSetUp

for (const signal of FORWARDED) {
  process.on(signal, () => {
    const now = performance.now()
    if (now - (lastAt.get(signal) ?? -Infinity) < SAME_SIGNAL_MS) return
    lastAt.set(signal, now)
    asked.add(signal)
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
  process.chdir(root)
  const node = await setUp(root, command.needs ?? {})
  // A signal that came while the set-up looked around is heard before there is an entry.
  await new Promise((resolve) => setImmediate(resolve))
  if (asked.size > 0) return 0
  return run(node, command, given)
}

/** Runs the entry and settles with its exit code. */
function run(node, { entry, node: options = [], args = [], env = {}, watched = false }, given) {
  const path = [join(root, 'node_modules/.bin'), process.env.PATH].filter(Boolean).join(delimiter)
  // A watched entry is no child of ours; the pipe would not reach it, and its number be another file's.
  const tied = watched ? [] : ['--import', new URL('exit-with-parent.mjs', import.meta.url).href]
  const child = spawn(node, [...tied, ...options, entry, ...args, ...given], {
    stdio: ['inherit', 'inherit', 'inherit', watched ? 'ignore' : 'pipe'],
    env: {
      NEXT_TELEMETRY_DISABLED: '1',
      // Every process loads some 300 files of ours and our packages': 0.2 s of 0.45 without compiling them anew.
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node-compile'),
      ...process.env,
      PATH: path,
      ...env,
      ...(watched ? {} : { EXIT_WITH_PARENT_FD: '3' }),
    },
    // Its own process group: what the terminal sends reaches it through us, and so just once.
    detached: true,
  })
  onSignal = (signal) => child.kill(signal)
  // npm passes a signal on to the shell between us and it; where that is dash, it dies and tells nobody.
  const parent = process.ppid
  if (process.env.npm_lifecycle_event) {
    const poll = setInterval(() => {
      if (process.ppid === parent) return
      clearInterval(poll)
      asked.add('SIGTERM')
      child.kill('SIGTERM')
    }, PARENT_POLL_MS).unref()
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      // It was asked to stop before Node had run its first line: there was nothing to be stopped.
      if (signal !== null && signal !== 'SIGHUP' && asked.has(signal)) resolve(0)
      else resolve(code ?? 128 + constants.signals[signal])
    })
  })
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  if (asked.size === 0) process.stderr.write(`${error.message}\n`)
  process.exitCode = asked.size === 0 ? 1 : 0
}
