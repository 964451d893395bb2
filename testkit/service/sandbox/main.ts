/**
 * A sandbox process for tests. It implements SandboxFusion's `POST /run_code` by running the program with `python3`
 * under time and memory limits. It does not isolate programs, so it must run only programs of tests. `GET /__stats`
 * returns counters. The process prints its URL as one line on standard output and ends when standard input
 * closes.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Job {
  code: string
  stdin: string | null
  run_timeout: number
  memory_limit_MB: number
  language: string
}

export interface SandboxStats {
  runs: number
  mostAtOnce: number
  memoryLimitsMb: number[]
  timeoutsS: number[]
}

const folder = mkdtempSync(join(tmpdir(), 'rewardops-sandbox-'))
const stats = {
  runs: 0,
  atOnce: 0,
  mostAtOnce: 0,
  memory: new Set<number>(),
  time: new Set<number>(),
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = ''
  for await (const chunk of request.setEncoding('utf8')) body += chunk
  return body
}

/** Running programs by process group; all are killed when the sandbox ends. */
const running = new Set<number>()

function kill(pid: number): void {
  try {
    // A negative id also kills the program's children.
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has already ended.
  }
}

/** Runs a program. `ulimit -v` is in KiB and applies only to the program, because `exec` replaces the shell. */
function run(job: Job, file: string): Promise<object> {
  return new Promise((resolve) => {
    const limitKib = job.memory_limit_MB * 1024
    const child = spawn('sh', ['-c', `ulimit -v ${limitKib}; exec python3 "$0"`, file], {
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    })
    let stdout = ''
    let stderr = ''
    let late = false
    const pid = child.pid as number
    running.add(pid)
    const timer = setTimeout(() => {
      late = true
      kill(pid)
    }, job.run_timeout * 1000)
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.stdin.on('error', () => {}).end(job.stdin ?? '')
    child.on('close', (code) => {
      clearTimeout(timer)
      running.delete(pid)
      const status = late ? 'TimeLimitExceeded' : 'Finished'
      const ran = { status, stdout, stderr, return_code: late ? null : (code ?? -1) }
      const failed = late || code !== 0
      resolve({ status: failed ? 'Failed' : 'Success', compile_result: null, run_result: ran })
    })
  })
}

async function answer(request: IncomingMessage): Promise<{ status: number; body: object }> {
  if (request.url === '/__stats') {
    const { runs, mostAtOnce, memory, time } = stats
    const body: SandboxStats = {
      runs,
      mostAtOnce,
      memoryLimitsMb: [...memory],
      timeoutsS: [...time],
    }
    return { status: 200, body }
  }
  if (request.method !== 'POST' || request.url !== '/run_code') return { status: 404, body: {} }
  const job = JSON.parse(await bodyOf(request)) as Job
  if (job.language !== 'python')
    return { status: 422, body: { detail: 'the only supported language is python' } }
  const file = join(folder, `${stats.runs++}.py`)
  writeFileSync(file, job.code)
  stats.memory.add(job.memory_limit_MB)
  stats.time.add(job.run_timeout)
  stats.mostAtOnce = Math.max(stats.mostAtOnce, ++stats.atOnce)
  try {
    return { status: 200, body: await run(job, file) }
  } finally {
    stats.atOnce--
  }
}

const server = createServer((request, response) => {
  answer(request)
    .catch((error: Error) => ({ status: 500, body: { detail: error.message } }))
    .then(({ status, body }) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    })
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`)
})
process.on('exit', () => {
  for (const pid of running) kill(pid)
  rmSync(folder, { recursive: true, force: true })
})
process.on('SIGTERM', () => process.exit(0))
process.stdin.resume().on('end', () => process.exit(0))
