#!/usr/bin/env node
// The launcher of the command line: sets up a fresh clone, then runs the command under Node 24. Like run.mjs, it is
// plain JavaScript without packages. Unlike run.mjs, it stays in the caller's folder, because file arguments are
// relative to that folder.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import { SetupError, setUp } from './setup.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Parts of the service and commands on its database, which run.mjs starts. */
const SERVICE = ['start', 'worker', 'sandbox', 'backup', 'restore']
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP']

async function main(given) {
  // npm runs a script in the project's folder and names the caller's folder in INIT_CWD.
  if (process.env.npm_lifecycle_event === 'rewardops' && process.env.INIT_CWD) {
    process.chdir(process.env.INIT_CWD)
  }
  if (SERVICE.includes(given[0])) {
    // run.mjs changes to the project's folder. INIT_CWD keeps the caller's folder, to which the files of `backup` and
    // `restore` are relative.
    process.env.INIT_CWD = process.cwd()
    await import('./run.mjs')
    return process.exitCode
  }
  const node = await setUp(root, {})
  const tie = new URL('exit-with-parent.mjs', import.meta.url).href
  const cli = fileURLToPath(new URL('../packages/cli/main.ts', import.meta.url))
  const child = spawn(node, ['--import', tie, cli, ...given], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...process.env, EXIT_WITH_PARENT_FD: '3' },
  })
  // A signal from the terminal reaches the command twice: directly, and forwarded here. The command counts it once.
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal]))
  })
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
