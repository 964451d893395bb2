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
import { type ServiceProcess, startService } from '../testkit/processes/service.ts'

// Runs the code of real trainers (TRL, verl, …), where pip can install it, against the service. Each script in TRAINERS
// prints what it asserted. Virtual environments are kept under .data/trainers; torch is shared, because it takes 5 GB
// with CUDA. Needs Python 3.10 or newer (NeMo-Gym: 3.12), a package index and 10 GB of disk space. Usage: node
// scripts/test-trainers.ts [NAME…]. Exits with 1 when an installed trainer fails, or when none could be installed.

const root = join(import.meta.dirname, '..')
const CLIENT = join(root, 'packages/client-python')
const FOLDER = join(root, '.data/trainers')

interface Trainer {
  name: string
  /** The key of ENVIRONMENTS. */
  environment: string
  /** File of the script. Its arguments are the URL of the service and, if it `writes`, an empty folder. */
  script: string
  writes?: true
}

/**
 * The virtual environments by name. `alone`: packages installed without their dependencies, because those need a GPU or
 * a compiler for GPU code. `shares`: the environment whose packages are also visible. `newest`, `oldest`: minor
 * versions of Python 3.
 */
const ENVIRONMENTS: Record<
  string,
  { packages: string[]; alone?: string[]; shares?: string; oldest?: number; newest?: number }
> = {
  trl: { packages: ['torch', 'trl', 'datasets', 'numpy'] },
  verl: { packages: ['torch', 'verl'], shares: 'trl' },
  verifiers: { packages: ['verifiers'] },
  'nemo-gym': { packages: ['nemo-gym'], oldest: 12 },
  // The packages that OpenRLHF's rollout executor and experiences import. The other code of OpenRLHF needs vLLM and
  // flash-attn.
  openrlhf: {
    packages: ['aiohttp', 'ray', 'peft', 'deepspeed', 'pylatexenc', 'torchdata', 'tensorboard'],
    alone: ['openrlhf'],
    shares: 'trl',
  },
  // An older version, whose trainer sends whole batches.
  'openrlhf-batches': { packages: [], alone: ['openrlhf==0.8.11'], shares: 'openrlhf' },
}

const TRAINERS: Trainer[] = [
  { name: 'trl', environment: 'trl', script: 'run_trl.py', writes: true },
  { name: 'trl-restart', environment: 'trl', script: 'run_trl_restart.py', writes: true },
  {
    name: 'trl-curriculum',
    environment: 'trl',
    script: '../../../examples/trl_curriculum.py',
  },
  { name: 'verl', environment: 'verl', script: 'run_verl.py' },
  { name: 'verl-loop', environment: 'verl', script: 'run_verl_loop.py', writes: true },
  { name: 'verifiers', environment: 'verifiers', script: 'run_verifiers.py' },
  { name: 'nemo-gym', environment: 'nemo-gym', script: 'run_nemo_gym.py', writes: true },
  { name: 'openrlhf', environment: 'openrlhf', script: 'run_openrlhf.py' },
  { name: 'openrlhf-batches', environment: 'openrlhf-batches', script: 'run_openrlhf_batches.py' },
]

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
  const failures = new Map<string, string | null>()
  for (const { environment } of wanted) {
    if (!failures.has(environment)) failures.set(environment, await install(environment))
  }
  const rows = wanted
    .filter(({ environment }) => failures.get(environment) !== null)
    .map(({ name, environment }) => [name, 'not installed', failures.get(environment)])
  const installed = wanted.filter(({ environment }) => failures.get(environment) === null)
  if (installed.length > 0) rows.push(...(await run(installed)))
  console.log('\n| run | outcome | asserted |\n|---|---|---|')
  for (const row of rows) console.log(`| ${row.join(' | ')} |`)
  const outcomes = rows.map(([, outcome]) => outcome)
  if (outcomes.includes('failed') || !outcomes.includes('passed')) process.exitCode = 1
}

async function run(trainers: Trainer[]): Promise<(string | null | undefined)[][]> {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-trainers-'))
  const service = await startRestartedService(join(folder, 'service'))
  const scorer = spawn(
    interpreter(trainers[0]!.environment),
    [
      ...['-m', 'rewardops', 'serve-reward', join(CLIENT, 'trainers/serving.py:sometimes')],
      ...['--register', service.url, '--model', 'sometimes', '--json'],
    ],
    { env: environment(), stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const rows = []
  try {
    await registered(scorer.stdout)
    for (const trainer of trainers) {
      const { name, script, writes } = trainer
      const own = join(folder, name)
      mkdirSync(own)
      const file = join(CLIENT, 'trainers', script)
      const log = join(FOLDER, `${name}.log`)
      const python = interpreter(trainer.environment)
      const code = await logged(python, [file, service.url, ...(writes ? [own] : [])], log)
      rows.push([name, code === 0 ? 'passed' : 'failed', code === 0 ? result(log) : log])
      console.log(`${name}: ${code === 0 ? 'passed' : `failed, the end of ${log}:`}`)
      if (code !== 0) console.log(readFileSync(log, 'utf8').split('\n').slice(-20).join('\n'))
    }
  } finally {
    scorer.kill('SIGTERM')
    if (scorer.exitCode === null) await once(scorer, 'exit')
    await service.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return rows
}

async function startRestartedService(
  dataDir: string,
): Promise<{ url: string; stop(): Promise<void> }> {
  const settings = {
    port: await freePort(),
    dataDir,
    env: { REWARDOPS_FUNCTIONS_DIR: join(root, 'examples/functions') },
  }
  let isStopping = false
  let starting: Promise<ServiceProcess>
  const start = async (): Promise<ServiceProcess> => {
    const service = await startService(settings)
    service.ended.then(() => {
      if (!isStopping) starting = start()
    })
    return service
  }
  starting = start()
  const { url } = await starting
  return {
    url,
    async stop() {
      isStopping = true
      await (await starting).stop()
    },
  }
}

/** Installs an environment and the environments that it shares. Returns the cause of a failure, or null. */
async function install(name: string): Promise<string | null> {
  const { packages, alone = [], shares, oldest = 10, newest = 13 } = ENVIRONMENTS[name]!
  const done = join(FOLDER, name, 'installed')
  if (existsSync(done)) return null
  if (shares !== undefined) {
    const why = await install(shares)
    if (why !== null) return why
  }
  // Environments can share packages only if they have the same version of Python.
  const python = shares === undefined ? pythonHere(oldest, newest) : interpreter(shares)
  if (python === null) return `there is no Python 3.${oldest} to 3.${newest}`
  const log = join(FOLDER, `${name}-install.log`)
  console.log(`${name}: pip install ${[...alone, ...packages].join(' ')} (${log})`)
  const made = spawnSync(python, ['-m', 'venv', join(FOLDER, name)], { encoding: 'utf8' })
  if (made.status !== 0) return `python -m venv failed: ${made.stderr.trim().split('\n').at(-1)}`
  if (shares !== undefined) {
    writeFileSync(join(sitePackages(name)!, 'shared.pth'), sharedBy(shares).join('\n'))
  }
  const installs = [alone.length > 0 ? ['--no-deps', ...alone] : [], packages]
  for (const wanted of installs.filter(({ length }) => length > 0)) {
    const code = await logged(interpreter(name), ['-m', 'pip', 'install', ...wanted], log)
    if (code !== 0) {
      const errors = readFileSync(log, 'utf8').match(/^ERROR: .*$/gm)
      return `${errors?.at(-1) ?? lastLine(log)}`
    }
  }
  writeFileSync(done, `${[...alone, ...packages].join(' ')}\n`)
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

/**
 * Package folders of an environment and of the environments that it shares. Python ignores the `.pth` files of shared
 * folders.
 */
function sharedBy(name: string): string[] {
  const { shares } = ENVIRONMENTS[name]!
  return [sitePackages(name)!, ...(shares === undefined ? [] : sharedBy(shares))]
}

function pythonHere(oldest: number, newest: number): string | null {
  const check = [
    '-c',
    `import sys, venv; sys.exit(not (3, ${oldest}) <= sys.version_info[:2] <= (3, ${newest}))`,
  ]
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
