import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import {
  cacheDir,
  ggufPath,
  LOW_PRIORITY,
  modelPath,
  nameOf,
  pythonOf,
  type Release,
  scriptPath,
} from './cache.ts'

/** Time limit of a start. vLLM takes half a minute on an idle CPU, and much longer beside work of higher priority. */
const READY_MS = 40 * 60_000
const STOP_MS = 15_000

export interface Serving {
  release: Release
  /** Name of the model in the cache, and on the server. */
  model: string
  /** llama.cpp: whether the model reranks (default) or chats. */
  kind?: 'rank' | 'chat'
  /** vLLM: whether sleep and wake are enabled. */
  canSleep?: boolean
  /** vLLM: max context, tokens. */
  maxModelLen?: number
}

const running = new Set<EngineProcess>()
process.on('exit', () => {
  for (const engine of running) engine.killNow()
})

/** A real reward-model server in its own process group, always on the same port. */
export class EngineProcess {
  readonly serving: Serving
  readonly port: number
  readonly logPath: string
  #child: ChildProcess | null = null

  private constructor(serving: Serving, port: number) {
    this.serving = serving
    this.port = port
    mkdirSync(join(cacheDir(), 'logs'), { recursive: true })
    this.logPath = join(cacheDir(), 'logs', `${nameOf(serving.release)}-${serving.model}.log`)
  }

  /**
   * Starts a server and waits until it is healthy.
   * @throws with the end of the log if the server ends before it is healthy
   */
  static async start(serving: Serving): Promise<EngineProcess> {
    const engine = new EngineProcess(serving, await freePort())
    running.add(engine)
    await engine.start()
    return engine
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Process id of the group's leader, which is also the id of the group. */
  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error('the engine does not run')
    return this.#child.pid
  }

  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null
  }

  async start(): Promise<void> {
    const log = createWriteStream(this.logPath, { flags: 'a' })
    const { command, env } = commandOf(this.serving, this.port)
    const [program = '', ...args] = command
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      detached: true,
    })
    if (child.pid !== undefined) setPriority(child.pid, LOW_PRIORITY)
    child.stdout.pipe(log, { end: false })
    child.stderr.pipe(log, { end: false })
    this.#child = child
    const deadline = Date.now() + READY_MS
    while (!(await this.isHealthy())) {
      if (!this.isRunning) throw new Error(`the engine ended while starting:\n${this.logTail()}`)
      if (Date.now() > deadline)
        throw new Error(`the engine did not become healthy:\n${this.logTail()}`)
      await sleep(500)
    }
  }

  async isHealthy(): Promise<boolean> {
    try {
      const { statusCode, body } = await request(`${this.url}/health`, { headersTimeout: 5_000 })
      await body.dump()
      return statusCode === 200
    } catch {
      return false
    }
  }

  logTail(): string {
    return readFileSync(this.logPath, 'utf8').slice(-4_000)
  }

  /**
   * Sends SIGKILL to the process with the model. In vLLM that process is a child of the HTTP server, which may stay up;
   * llama.cpp is a single process.
   */
  async killCompute(): Promise<void> {
    const core = this.serving.release.engine === 'vllm' ? engineCoreOf(this.pid) : this.pid
    process.kill(core, 'SIGKILL')
    while (isProcess(core)) await sleep(50)
  }

  async stop(): Promise<void> {
    const child = this.#child
    if (child === null) return
    const { pid } = this
    signalGroup(pid, 'SIGTERM')
    const deadline = Date.now() + STOP_MS
    while (groupHasMembers(pid) && Date.now() < deadline) await sleep(100)
    signalGroup(pid, 'SIGKILL')
    while (groupHasMembers(pid)) await sleep(50)
    this.#child = null
    running.delete(this)
  }

  killNow(): void {
    if (this.#child?.pid !== undefined) signalGroup(this.#child.pid, 'SIGKILL')
  }
}

function commandOf(serving: Serving, port: number) {
  const { release, model } = serving
  const python = pythonOf(release)
  if (release.engine === 'llamacpp') {
    const script = scriptPath('llama_server.py')
    const kind = serving.kind ?? 'rank'
    return { command: [python, script, ggufPath(model), String(port), kind], env: {} }
  }
  const command = [
    ...[python, '-m', 'vllm.entrypoints.openai.api_server'],
    ...['--model', modelPath(model), '--served-model-name', model],
    ...['--host', '127.0.0.1', '--port', String(port)],
    // vLLM ends a scoring request in the step that runs it, and so reports 0 running. With at most 4 requests per
    // step, it reports further requests as waiting.
    ...['--dtype', 'float32', '--enforce-eager', '--max-num-seqs', '4'],
    ...['--max-model-len', String(serving.maxModelLen ?? 1024)],
  ]
  const env: Record<string, string> = {
    VLLM_TARGET_DEVICE: 'cpu',
    VLLM_CPU_KVCACHE_SPACE: '1',
    // vLLM 0.11.0 does not support `nobind`.
    VLLM_CPU_OMP_THREADS_BIND: release.version === '0.11.0' ? '0' : 'nobind',
    VLLM_CPU_NUM_OF_RESERVED_CPU: '0',
    OMP_NUM_THREADS: '1',
    CUDA_VISIBLE_DEVICES: '',
    HF_HUB_OFFLINE: '1',
    TRANSFORMERS_OFFLINE: '1',
    VLLM_NO_USAGE_STATS: '1',
    DO_NOT_TRACK: '1',
  }
  if (serving.canSleep) {
    env.VLLM_SERVER_DEV_MODE = '1'
  }
  return { command, env }
}

/** Process id of the child with the model: the one named EngineCore, else the child with the most memory. */
function engineCoreOf(leader: number): number {
  const children = processes().filter(({ group, pid }) => group === leader && pid !== leader)
  const named = children.find(({ commandLine }) => /EngineCore/.test(commandLine))
  const core = named ?? children.toSorted((a, b) => b.residentPages - a.residentPages)[0]
  if (core === undefined) throw new Error('vLLM has no child process')
  return core.pid
}

interface ProcessEntry {
  pid: number
  group: number
  state: string
  commandLine: string
  residentPages: number
}

function processes(): ProcessEntry[] {
  const entries: ProcessEntry[] = []
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const [state = '', , group = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      entries.push({
        pid: Number(name),
        group: Number(group),
        state,
        commandLine: readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' '),
        residentPages: Number(readFileSync(`/proc/${name}/statm`, 'utf8').split(' ')[1]),
      })
    } catch {
      // The process has ended.
    }
  }
  return entries
}

function isProcess(pid: number): boolean {
  return processes().some((entry) => entry.pid === pid && entry.state !== 'Z')
}

function groupHasMembers(group: number): boolean {
  return processes().some((entry) => entry.group === group && entry.state !== 'Z')
}

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal)
  } catch {
    // The group has no processes left.
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
