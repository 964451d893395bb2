import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isRecentNode } from './setup.mjs'

/** A checkout with stub versions of npm, prisma and next that record their calls. */
let root: string
const children: ChildProcess[] = []

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'checkout-'))
  for (const name of readdirSync(import.meta.dirname)) {
    if (name.endsWith('.mjs')) cpSync(join(import.meta.dirname, name), join(root, 'scripts', name))
  }
  write('package.json', '{"type":"module","dependencies":{"a":"1.0.0"}}')
  write('package-lock.json', lock('1.0.0'))
  write('prisma/schema.prisma', '')
  write('app/page.tsx', 'one')
  write('bin/npm', FAKE_NPM)
  chmodSync(join(root, 'bin/npm'), 0o755)
  write('server/start.ts', `console.log('hello', process.argv.slice(2).join(' '))`)
  write('server/worker/start.ts', `console.log('worker')`)
})

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }
  rmSync(root, { recursive: true, force: true })
})

const FAKE_NPM = `#!/bin/sh
echo "npm $1" >> calls
mkdir -p node_modules/prisma/build node_modules/next/dist/bin
echo '{}' > node_modules/next/package.json
cp package-lock.json node_modules/.package-lock.json
cat > node_modules/prisma/build/index.js <<'JS'
import fs from 'node:fs'
fs.appendFileSync('calls', 'prisma ' + process.argv[2] + '\\n')
fs.mkdirSync('server/store/generated/prisma', { recursive: true })
fs.writeFileSync('server/store/generated/prisma/client.ts', '')
JS
cat > node_modules/next/dist/bin/next <<'JS'
const fs = require('node:fs')
fs.appendFileSync('calls', 'next ' + process.argv[2] + '\\n')
if (fs.readFileSync('app/page.tsx', 'utf8') === 'broken') {
  console.log('page.tsx is broken')
  process.exit(1)
}
fs.mkdirSync('.next', { recursive: true })
fs.writeFileSync('.next/BUILD_ID', '')
JS
`

function lock(version: string): string {
  const packages = { '': {}, 'node_modules/a': { version }, 'node_modules/b': { optional: true } }
  return JSON.stringify({ packages })
}

function write(file: string, text: string): void {
  mkdirSync(join(root, dirname(file)), { recursive: true })
  writeFileSync(join(root, file), text)
}

const calls = () =>
  existsSync(join(root, 'calls'))
    ? readFileSync(join(root, 'calls'), 'utf8').trim().split('\n')
    : []

function command(...args: string[]): ChildProcess & { said: { out: string; err: string } } {
  const { npm_execpath: _, npm_lifecycle_event: __, ...env } = process.env
  const child = spawn(process.execPath, ['scripts/run.mjs', ...args], {
    cwd: root,
    env: { ...env, PATH: `${join(root, 'bin')}:${env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (piece) => {
    said.out += piece
  })
  child.stderr.setEncoding('utf8').on('data', (piece) => {
    said.err += piece
  })
  children.push(child)
  return Object.assign(child, { said })
}

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = command(...args)
  const [code] = await once(child, 'close')
  return { code, ...child.said }
}

const ALL_STAGES =
  /^npm ci \.\.\. \d+\.\d s\nprisma generate \.\.\. \d+\.\d s\nnext build \.\.\. \d+\.\d s\n$/

test('a fresh clone: every stage runs once with one line, and arguments are passed on', async () => {
  const first = await run('start', '--x', 'y z')
  expect(first).toEqual({ code: 0, out: 'hello --x y z\n', err: expect.stringMatching(ALL_STAGES) })
  expect(await run('start')).toEqual({ code: 0, out: 'hello \n', err: '' })
  expect(calls()).toEqual(['npm ci', 'prisma generate', 'next build'])
})

test('a worker starts without a build of the pages', async () => {
  expect((await run('worker')).out).toBe('worker\n')
  expect(calls()).toEqual(['npm ci', 'prisma generate'])
})

test('only changed stages run again', async () => {
  await run('start')
  write('app/page.tsx', 'two')
  await run('start')
  write('app/page.test.tsx', 'a test')
  await run('start')
  expect(calls().slice(3)).toEqual(['next build'])
  write('prisma/schema.prisma', 'model A {}')
  await run('start')
  expect(calls().slice(4)).toEqual(['prisma generate'])
  write('package-lock.json', lock('2.0.0'))
  await run('start')
  expect(calls().slice(5)).toEqual(['npm ci', 'prisma generate', 'next build'])
})

test('packages installed by other means are accepted if they match', async () => {
  const npm = spawn(join(root, 'bin/npm'), ['ci'], { cwd: root })
  await once(npm, 'exit')
  await run('worker')
  expect(calls()).toEqual(['npm ci', 'prisma generate'])
  rmSync(join(root, 'calls'))
  write('node_modules/.package-lock.json', lock('0.9.0'))
  await run('worker')
  expect(calls()).toEqual(['npm ci'])
})

test('concurrent commands set up once', async () => {
  const both = await Promise.all([run('start'), run('start'), run('worker')])
  expect(both.map(({ code }) => code)).toEqual([0, 0, 0])
  expect(calls().sort()).toEqual(['next build', 'npm ci', 'prisma generate'])
})

test('a stage that fails stops the command and shows its output; the next run tries again', async () => {
  write('app/page.tsx', 'broken')
  const failed = await run('start')
  expect(failed).toMatchObject({ code: 1, out: '' })
  expect(failed.err).toMatch(/next build \.\.\. failed\n.*exited with 1\npage\.tsx is broken\n$/s)
  write('app/page.tsx', 'fixed')
  expect(await run('start')).toMatchObject({ code: 0, out: 'hello \n' })
})

test('an unknown or missing command is refused with a list of commands', async () => {
  for (const words of [['stort'], []]) {
    const { code, err } = await run(...words)
    expect(code).toBe(1)
    expect(err).toMatch(
      /^usage: .*start \| dev \| sandbox \| worker \| demo \| bench \| backup \| restore \| seed \| pack \| check \| test/,
    )
  }
  expect(calls()).toEqual([])
})

const LISTENS = `
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => console.log(signal))
process.on('SIGTERM', () => process.exit(7))
console.log('pid', process.pid)
setInterval(() => {}, 1000)`

async function listening(): Promise<ReturnType<typeof command> & { entry: number }> {
  write('server/worker/start.ts', LISTENS)
  const child = command('worker')
  await expect.poll(() => child.said.out, POLL).toMatch(/^pid \d+\n/)
  return Object.assign(child, { entry: Number(/\d+/.exec(child.said.out)?.[0]) })
}

test('a signal is passed on, Ctrl-C is counted once, and the exit code is returned', async () => {
  const child = await listening()
  // One signal comes from the terminal, the other from npm.
  child.kill('SIGINT')
  child.kill('SIGINT')
  await expect.poll(() => child.said.out, POLL).toMatch(/SIGINT\n$/)
  child.kill('SIGTERM')
  expect(await once(child, 'close')).toEqual([7, null])
  expect(child.said.out.match(/SIG\w+/g)).toEqual(['SIGINT', 'SIGTERM'])
})

test('an entry killed by a signal returns the exit code that a shell would', async () => {
  const child = await listening()
  process.kill(child.entry, 'SIGKILL')
  expect(await once(child, 'close')).toEqual([137, null])
})

test('kill -9 of the launcher stops the entry too', async () => {
  const child = await listening()
  child.kill('SIGKILL')
  // The entry shares the output streams, so they close only after it has ended.
  await once(child, 'close')
  expect(child.said.out).toMatch(/SIGTERM\n$/)
})

test('a signal during the set-up stops the running stage without reporting a failure', async () => {
  write('bin/npm', '#!/bin/sh\necho "npm $$" >> calls\nexec sleep 600\n')
  chmodSync(join(root, 'bin/npm'), 0o755)
  const child = command('worker')
  // The shell creates the file before it writes the line.
  await expect.poll(() => calls().join(), POLL).toMatch(/\d+/)
  const npm = Number(/\d+/.exec(calls().join())?.[0])
  child.kill('SIGTERM')
  expect(await once(child, 'close')).toEqual([0, null])
  expect(() => process.kill(npm, 0)).toThrow('ESRCH')
})

test('a killed set-up does not block the next one', async () => {
  write('bin/npm', '#!/bin/sh\necho "npm $$" >> calls\nexec sleep 600\n')
  const child = command('worker')
  await expect.poll(() => calls().join(), POLL).toMatch(/\d+/)
  child.kill('SIGKILL')
  process.kill(Number(/\d+/.exec(calls().join())?.[0]), 'SIGKILL')
  await once(child, 'close')
  write('bin/npm', FAKE_NPM)
  expect((await run('worker')).out).toBe('worker\n')
})

test('an entry stopped before its first line is not a failure', async () => {
  await run('worker')
  // The entry handles no signal, like Node before it runs any code.
  write('server/worker/start.ts', "console.log('pid', process.pid)\nsetInterval(() => {}, 1000)")
  const child = command('worker')
  await expect.poll(() => child.said.out, POLL).toMatch(/^pid \d+\n/)
  child.kill('SIGTERM')
  expect(await once(child, 'close')).toEqual([0, null])
})

test('the minimum Node version', () => {
  const versions = ['v20.20.2', 'v22.18.0', 'v22.19.0', 'v23.9.0', 'v24.0.0', 'v26.1.0', '']
  expect(versions.filter(isRecentNode)).toEqual(['v22.19.0', 'v24.0.0', 'v26.1.0'])
})

const POLL = { timeout: 30_000, interval: 20 }
