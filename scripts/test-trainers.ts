import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../testkit/processes/port.ts'
import { startService } from '../testkit/processes/service.ts'

// Runs the trainers' own code against the service, as far as pip can install it: a GRPOTrainer of TRL, another one
// whose prompts the service draws, verl's reward managers, a task of verifiers. Each has a virtual environment under
// .data/trainers that is kept; torch is shared, because it takes 5 GB with CUDA. Needs Python 3.10 or newer, a package
// index and 10 GB. Usage: node scripts/test-trainers.ts [trl] [trl-curriculum] [verl] [verifiers]. Exits with 1 when an
// installed one fails, or when none could be installed.

const root = join(import.meta.dirname, '..')
const CLIENT = join(root, 'packages/client-python')
const FOLDER = join(root, '.data/trainers')

interface Trainer {
  name: string
  packages: string[]
  /** The trainer whose environment's packages are also visible. */
  shares?: string
  script: string
  args?: (folder: string) => string[]
}

const TRAINERS: Trainer[] = [
  {
    name: 'trl',
    packages: ['torch', 'trl', 'datasets', 'numpy'],
    script: 'run_trl.py',
    args: (folder) => [folder],
  },
  {
    name: 'trl-curriculum',
    packages: ['trl'],
    shares: 'trl',
    script: '../../../examples/trl_curriculum.py',
  },
  { name: 'verl', packages: ['torch', 'verl'], shares: 'trl', script: 'run_verl.py' },
  { name: 'verifiers', packages: ['verifiers'], script: 'run_verifiers.py' },
]

type Outcome = 'passed' | 'failed' | 'not installed'

async function main(): Promise<void> {
  const named = process.argv.slice(2)
  for (const name of named) {
    if (!TRAINERS.some((trainer) => trainer.name === name)) {
      throw new Error(
        `${name} is not a trainer; the trainers are ${TRAINERS.map((t) => t.name).join(', ')}`,
      )
    }
  }
  const wanted = TRAINERS.filter(({ name }) => named.length === 0 || named.includes(name))
  mkdirSync(FOLDER, { recursive: true })
  const outcomes = new Map<string, Outcome>()
  const installed: Trainer[] = []
  for (const trainer of wanted) {
    const why = await install(trainer)
    if (why === null) installed.push(trainer)
    else {
      outcomes.set(trainer.name, 'not installed')
      console.log(`${trainer.name}: could not be installed: ${why}`)
    }
  }
  if (installed.length > 0) await run(installed, outcomes)
  const summary = [...outcomes].map(([name, outcome]) => `${name} ${outcome}`).join(', ')
  console.log(summary)
  const all = [...outcomes.values()]
  if (all.includes('failed') || !all.includes('passed')) process.exitCode = 1
}

async function run(trainers: Trainer[], outcomes: Map<string, Outcome>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-trainers-'))
  const dataDir = join(folder, 'service')
  const service = await startService({
    port: await freePort(),
    dataDir,
    env: { REWARDOPS_FUNCTIONS_DIR: join(root, 'examples/functions') },
  })
  const scorer = spawn(
    interpreter(trainers[0]!.name),
    [
      ...['-m', 'rewardops', 'serve-reward', join(CLIENT, 'trainers/serving.py:sometimes')],
      ...['--register', service.url, '--model', 'sometimes', '--json'],
    ],
    { env: environment(), stdio: ['ignore', 'pipe', 'ignore'] },
  )
  try {
    await registered(scorer.stdout)
    for (const { name, script, args } of trainers) {
      const own = join(folder, name)
      mkdirSync(own)
      const file = join(CLIENT, 'trainers', script)
      const log = join(FOLDER, `${name}.log`)
      const command = [file, service.url, ...(args?.(own) ?? [])]
      const code = await logged(interpreter(name), command, log)
      outcomes.set(name, code === 0 ? 'passed' : 'failed')
      console.log(`${name}: ${code === 0 ? result(log) : `failed, the end of ${log}:`}`)
      if (code !== 0) console.log(readFileSync(log, 'utf8').split('\n').slice(-20).join('\n'))
    }
  } finally {
    scorer.kill('SIGTERM')
    if (scorer.exitCode === null) await once(scorer, 'exit')
    await service.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Creates a trainer's environment if it is missing. Returns the cause of a failure, or null. */
async function install({ name, packages, shares }: Trainer): Promise<string | null> {
  const done = join(FOLDER, name, 'installed')
  if (existsSync(done)) return null
  const python = pythonHere()
  if (python === null) return 'there is no Python 3.10 or newer'
  const log = join(FOLDER, `${name}-install.log`)
  console.log(`${name}: pip install ${packages.join(' ')} (${log})`)
  const made = spawnSync(python, ['-m', 'venv', join(FOLDER, name)], { encoding: 'utf8' })
  if (made.status !== 0) return `python -m venv failed: ${made.stderr.trim().split('\n').at(-1)}`
  const other = shares === undefined ? null : sitePackages(shares)
  if (other !== null) writeFileSync(join(sitePackages(name)!, 'shared.pth'), `${other}\n`)
  const code = await logged(interpreter(name), ['-m', 'pip', 'install', ...packages], log)
  if (code !== 0) {
    const errors = readFileSync(log, 'utf8').match(/^ERROR: .*$/gm)
    return `${errors?.at(-1) ?? lastLine(log)}`
  }
  writeFileSync(done, `${packages.join(' ')}\n`)
  return null
}

function interpreter(name: string): string {
  return join(FOLDER, name, 'bin/python')
}

function sitePackages(name: string): string | null {
  const lib = join(FOLDER, name, 'lib')
  const version = existsSync(lib) ? readdirSync(lib).find((d) => d.startsWith('python3')) : null
  return version ? join(lib, version, 'site-packages') : null
}

/** The first installed Python that the trainers support (3.10 to 3.13); null without one. */
function pythonHere(): string | null {
  const check = ['-c', 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))']
  const names = ['python3.12', 'python3.11', 'python3.13', 'python3.10', 'python3']
  return names.find((name) => spawnSync(name, check).status === 0) ?? null
}

function environment(): NodeJS.ProcessEnv {
  // The Hugging Face Hub is not needed, because models and data are generated here.
  return {
    ...process.env,
    PYTHONPATH: join(CLIENT, 'src'),
    HF_HUB_OFFLINE: '1',
    TOKENIZERS_PARALLELISM: 'false',
  }
}

async function logged(command: string, args: string[], path: string): Promise<number> {
  const log = createWriteStream(path)
  const child = spawn(command, args, {
    env: args.includes('pip') ? process.env : environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.pipe(log, { end: false })
  child.stderr.pipe(log, { end: false })
  const [code] = await once(child, 'close')
  await new Promise<void>((resolve) => log.end(resolve))
  return code ?? 1
}

function lastLine(path: string): string {
  return readFileSync(path, 'utf8').trimEnd().split('\n').at(-1) ?? ''
}

/** The script's PASSED line, without that word, from a log that also has the trainer's output. */
function result(path: string): string {
  return /^PASSED (.*)$/m.exec(readFileSync(path, 'utf8'))?.[1] ?? 'passed'
}

function registered(stdout: NodeJS.ReadableStream): Promise<void> {
  let said = ''
  return new Promise((resolve, reject) => {
    // The output is read to its end, because a full pipe would block the process.
    stdout.on('data', (chunk: Buffer) => {
      said += chunk
      if (said.includes('"registered"')) resolve()
    })
    stdout.on('end', () => reject(new Error(`the reward function was not registered: ${said}`)))
  })
}

await main()
