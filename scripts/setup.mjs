// Creates the missing prerequisites of a command. Prints one line per stage on stderr, or nothing if everything is up
// to date. This file is plain JavaScript without packages for any Node >= 20, because it runs before anything is
// installed.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { findChromium } from './chromium.mjs'
import { withSetupLock } from './setup-lock.mjs'

/** The oldest Node that runs TypeScript directly (22.18) and the HTTP client undici 8 (22.19). */
const OLDEST_NODE = [22, 19]
const WANTED_NODE = 24

/** A stage failed, or the machine lacks something; the message names the remedy. */
export class SetupError extends Error {}

/**
 * Returns whether this is the published package, which has everything that its commands need. A package of npm never
 * contains a package-lock.json.
 * @param {string} root
 */
export function isInstalledPackage(root) {
  return !existsSync(join(root, 'package-lock.json'))
}

/**
 * Brings the checkout up to date for a command, one process at a time.
 * @param {string} root
 * @param {{ pages?: boolean, chromium?: boolean }} needs
 * @returns {Promise<string>} path of the Node that runs the command
 */
export async function setUp(root, needs) {
  if (isInstalledPackage(root)) return pickNode(root)
  const pending = () =>
    STAGES.find((stage) => (!stage.only || needs[stage.only]) && !stage.isDone(root))
  if (pending()) {
    await withSetupLock(root, async () => {
      // The pending stages are determined again after each stage, because a stage may invalidate later ones.
      for (let stage = pending(); stage; stage = pending()) {
        await run(stage, root)
        if (!stage.isDone(root)) throw new SetupError(`${stage.name} ran without a result`)
      }
    })
  }
  return pickNode(root)
}

/** @typedef {{ name: string, only?: 'pages' | 'chromium', isDone(root: string): boolean, run(root: string): Promise<void> }} Stage */

/** @type {Stage[]} */
const STAGES = [
  {
    name: 'npm ci',
    isDone: (root) => isStamped(root, PACKAGES_STAMP, packagesKey(root)) || isInstalled(root),
    async run(root) {
      // Includes development packages, regardless of NODE_ENV and npm's configuration.
      const options = [
        '--include=dev',
        '--include=optional',
        '--loglevel=error',
        '--no-audit',
        '--no-fund',
      ]
      await npm(root, ['ci', ...options])
      stamp(root, PACKAGES_STAMP, packagesKey(root))
    },
  },
  {
    name: 'prisma generate',
    isDone: (root) =>
      existsSync(join(root, GENERATED, 'prisma/client.ts')) &&
      isStamped(root, CLIENT_STAMP, clientKey(root)),
    async run(root) {
      rmSync(join(root, CLIENT_STAMP), { force: true })
      await node(root, [join(root, 'node_modules/prisma/build/index.js'), 'generate'])
      stamp(root, CLIENT_STAMP, clientKey(root))
    },
  },
  {
    name: 'next build',
    only: 'pages',
    isDone: (root) =>
      existsSync(join(root, '.next/BUILD_ID')) && isStamped(root, PAGES_STAMP, pagesKey(root)),
    async run(root) {
      rmSync(join(root, PAGES_STAMP), { force: true })
      // The key is computed before the build, so that edits during the build cause another build.
      const key = pagesKey(root)
      await node(root, [join(root, 'node_modules/next/dist/bin/next'), 'build'])
      stamp(root, PAGES_STAMP, key)
    },
  },
  {
    name: 'chromium',
    only: 'chromium',
    isDone: (root) => findChromium() !== undefined || hasPlaywrightChromium(root),
    run: installChromium,
  },
]

// Each stamp is stored next to its output and removed with it.
const PACKAGES_STAMP = 'node_modules/.setup-stamp'
const GENERATED = 'server/store/generated'
const CLIENT_STAMP = `${GENERATED}/.setup-stamp`
const PAGES_STAMP = '.next/.setup-stamp'

async function run(stage, root) {
  const startedAt = performance.now()
  process.stderr.write(`${stage.name} ... `)
  try {
    await stage.run(root)
  } catch (error) {
    process.stderr.write('failed\n')
    throw error
  }
  process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`)
}

function packagesKey(root) {
  const { dependencies, devDependencies, optionalDependencies, overrides } = readJson(
    root,
    'package.json',
  )
  const wanted = JSON.stringify({ dependencies, devDependencies, optionalDependencies, overrides })
  return digest(wanted, readFileSync(join(root, 'package-lock.json')))
}

function clientKey(root) {
  return digest(
    ...['prisma/schema.prisma', 'package-lock.json'].map((f) => readFileSync(join(root, f))),
  )
}

/** Hash of the files that the pages are built from. From the server, pages import only types and server/contract. */
function pagesKey(root) {
  const files = [
    ...['app', 'components', 'server/contract', 'public'].flatMap((dir) => filesUnder(root, dir)),
    ...['next.config.ts', 'postcss.config.mjs', 'tsconfig.json', 'package-lock.json'],
  ]
  return digest(
    ...files
      .filter((file) => !/\.test\.tsx?$/.test(file) && existsSync(join(root, file)))
      .sort()
      .flatMap((file) => [file, readFileSync(join(root, file))]),
  )
}

/**
 * Returns whether the packages that npm installed match package-lock.json. Optional packages may be missing, because
 * most of them are for other platforms.
 */
function isInstalled(root) {
  const [ours, npms] = [PACKAGES_STAMP, 'node_modules/.package-lock.json'].map((file) =>
    statSync(join(root, file), { throwIfNoEntry: false }),
  )
  // Unless npm ran after the stamp was written, the stamp alone decides.
  if (!npms || (ours && ours.mtimeMs >= npms.mtimeMs)) return false
  const wanted = readJson(root, 'package-lock.json').packages
  const found = readJson(root, 'node_modules/.package-lock.json').packages
  const same = (path) => wanted[path]?.version === found[path]?.version
  return (
    Object.keys(found).every(same) &&
    Object.entries(wanted).every(([path, { optional }]) => path === '' || optional || same(path))
  )
}

function pickNode(root) {
  const own = join(root, 'node_modules/.bin/node')
  for (const candidate of [own, ...installedNode(root), process.execPath]) {
    if (isRecentNode(nodeVersion(candidate))) return candidate
  }
  throw new SetupError(
    `Node ${WANTED_NODE} is needed (${OLDEST_NODE.join('.')} or newer will do). This is ${process.version}, ` +
      `and npm has no Node ${WANTED_NODE} that runs on ${process.platform}-${process.arch}. Install it:\n${nodeAdvice()}`,
  )
}

/** The Node that npm installed beside the published package, whose folder has no node_modules/.bin to look in. */
function installedNode(root) {
  try {
    const name = `node-${process.platform}-${process.arch}/package.json`
    return [join(dirname(createRequire(join(root, 'package.json')).resolve(name)), 'bin/node')]
  } catch {
    return []
  }
}

function nodeVersion(path) {
  if (path === process.execPath) return process.version
  if (!existsSync(path)) return ''
  return spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout ?? ''
}

/** @param {string} version as `node --version` prints it; empty for a Node that does not run */
export function isRecentNode(version) {
  const [major = 0, minor = 0] = version.slice(1).split('.').map(Number)
  // Node 23 lacks features of 22.19 and 24.
  return major >= WANTED_NODE || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])
}

function nodeAdvice() {
  const nvm = `  nvm install ${WANTED_NODE} && nvm use ${WANTED_NODE}`
  if (process.platform !== 'darwin') return `${nvm}\n  or see https://nodejs.org/en/download`
  return `  brew install node@${WANTED_NODE} && brew link --overwrite --force node@${WANTED_NODE}\n  or\n${nvm}`
}

async function installChromium(root) {
  const problems = []
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get') && !isUbuntu()) {
    const apt = ['-qq', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3']
    const env = { DEBIAN_FRONTEND: 'noninteractive' }
    try {
      // A fresh image has no package lists. The update may fail, because existing lists are enough if a mirror is down.
      await attempt('apt-get', [...apt, 'update'], { cwd: root, env, mayFail: true })
      await attempt('apt-get', [...apt, 'install', '-y', '--no-install-recommends', 'chromium'], {
        cwd: root,
        env,
      })
      if (findChromium()) return
    } catch (error) {
      problems.push(error.message)
    }
  }
  try {
    const cli = join(root, 'node_modules/@playwright/test/cli.js')
    await node(root, [cli, 'install', ...(isUbuntu() ? ['--with-deps'] : []), 'chromium'])
    if (hasPlaywrightChromium(root)) return
  } catch (error) {
    problems.push(error.message)
  }
  throw new SetupError(
    'The tests need Chromium, and it could not be installed. Install it ("apt-get install chromium" on ' +
      `Debian), or set CHROMIUM_PATH to an installed one.\n${problems.join('\n')}`,
  )
}

/** Returns whether the system is Ubuntu, whose package "chromium" is a snap that containers cannot run. */
function isUbuntu() {
  return (
    existsSync('/etc/os-release') && /^ID=ubuntu$/m.test(readFileSync('/etc/os-release', 'utf8'))
  )
}

function hasPlaywrightChromium(root) {
  try {
    const { chromium } = createRequire(join(root, 'package.json'))('@playwright/test')
    return existsSync(chromium.executablePath())
  } catch {
    return false
  }
}

async function npm(root, args) {
  // `npm run` sets npm_execpath, even if npm is not on the PATH.
  const script = process.env.npm_execpath
  if (script?.endsWith('npm-cli.js'))
    await attempt(process.execPath, [script, ...args], { cwd: root })
  else await attempt('npm', args, { cwd: root })
}

async function node(root, args) {
  const quiet = {
    NEXT_TELEMETRY_DISABLED: '1',
    CHECKPOINT_DISABLE: '1',
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
  }
  await attempt(pickNode(root), args, { cwd: root, env: { ...quiet, NODE_ENV: 'production' } })
}

let running = null
let stopped = false

export function stopSetUp() {
  stopped = true
  running?.kill('SIGTERM')
}

async function attempt(file, args, { cwd, env = {}, mayFail = false }) {
  if (stopped) throw new SetupError('stopped')
  const child = spawn(file, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running = child
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    // Without free file descriptors, Node creates no streams.
    stream?.setEncoding('utf8').on('data', (piece) => {
      said += piece
    })
  }
  const how = await new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', (code, signal) => {
      if (code === 0) resolve(null)
      else resolve(signal ? `was killed by ${signal}` : `exited with ${code}`)
    })
  })
  running = null
  if (stopped) throw new SetupError('stopped')
  if (how === null || mayFail) return
  throw new SetupError(`${[file, ...args].join(' ')} ${how}\n${said.trim()}`.trim())
}

function isStamped(root, file, key) {
  return existsSync(join(root, file)) && readFileSync(join(root, file), 'utf8') === key
}

function stamp(root, file, key) {
  mkdirSync(dirname(join(root, file)), { recursive: true })
  writeFileSync(join(root, file), key)
}

function digest(...parts) {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(String(part.length)).update(part)
  return hash.digest('hex')
}

function filesUnder(root, dir) {
  if (!existsSync(join(root, dir))) return []
  return readdirSync(join(root, dir), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesUnder(root, `${dir}/${entry.name}`) : [`${dir}/${entry.name}`],
  )
}

function readJson(root, file) {
  return JSON.parse(readFileSync(join(root, file), 'utf8'))
}
