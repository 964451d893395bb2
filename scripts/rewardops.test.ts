import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

let root: string
let elsewhere: string
const children: ChildProcess[] = []

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'checkout-'))
  elsewhere = realpathSync(mkdtempSync(join(tmpdir(), 'work-')))
  for (const name of readdirSync(import.meta.dirname)) {
    if (name.endsWith('.mjs')) cpSync(join(import.meta.dirname, name), join(root, 'scripts', name))
  }
  write('package.json', '{"type":"module"}')
  write('package-lock.json', '{"packages":{"":{}}}')
  write('node_modules/.package-lock.json', '{"packages":{}}')
  write('prisma/schema.prisma', '')
  write(
    'node_modules/prisma/build/index.js',
    `const fs = require('node:fs')
     fs.mkdirSync('server/store/generated/prisma', { recursive: true })
     fs.writeFileSync('server/store/generated/prisma/client.ts', '')`,
  )
  write('node_modules/prisma/package.json', '{"type":"commonjs"}')
  write(
    'packages/cli/main.ts',
    `console.log(process.cwd(), process.argv.slice(2).join(' '))
     if (process.argv[2] === 'wait') setInterval(() => {}, 1_000)
     else process.exitCode = 4`,
  )
})

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }
  for (const folder of [root, elsewhere]) rmSync(folder, { recursive: true, force: true })
})

function write(file: string, text: string): void {
  mkdirSync(join(root, dirname(file)), { recursive: true })
  writeFileSync(join(root, file), text)
}

function start(args: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const { npm_lifecycle_event: _, INIT_CWD: __, ...env } = process.env
  const launcher = join(root, 'scripts/rewardops.mjs')
  const child = spawn(process.execPath, [launcher, ...args], {
    cwd: options.cwd ?? elsewhere,
    env: { ...env, ...options.env } as NodeJS.ProcessEnv,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { out: '' }
  child.stdout.setEncoding('utf8').on('data', (piece) => {
    said.out += piece
  })
  children.push(child)
  return Object.assign(child, { said })
}

test('the launcher keeps the caller’s folder and passes on arguments and exit code', async () => {
  const child = start(['import', 'a b.jsonl'])
  expect(await once(child, 'close')).toEqual([4, null])
  expect(child.said.out).toBe(`${elsewhere} import a b.jsonl\n`)
})

test('the launcher works through a link, as npm creates it, and by npm run, which changes the folder', async () => {
  const link = join(elsewhere, 'rewardops')
  symlinkSync(join(root, 'scripts/rewardops.mjs'), link)
  const child = spawn(process.execPath, [link], {
    cwd: elsewhere,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  expect(await once(child, 'close')).toEqual([4, null])
  const env = { npm_lifecycle_event: 'rewardops', INIT_CWD: elsewhere }
  const byNpm = start(['x'], { cwd: root, env })
  await once(byNpm, 'close')
  expect(byNpm.said.out).toBe(`${elsewhere} x\n`)
})

test('a signal is passed on; kill -9 of the launcher ends the command too', async () => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const child = start(['wait'])
    await once(child.stdout, 'data')
    child.kill(signal)
    // The launcher and the command share the output, so it closes when both have ended.
    const [code, killedBy] = await once(child, 'close')
    expect({ code, killedBy }).toEqual(
      signal === 'SIGTERM' ? { code: 143, killedBy: null } : { code: null, killedBy: 'SIGKILL' },
    )
  }
})
