import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface DecodedSpan {
  type: string
  resource: Record<string, unknown>
  scope: string
  name: string
  /** 1 internal, 2 server, 3 client. */
  kind: number
  traceId: string
  spanId: string
  /** Empty for a root span. */
  parentId: string
  state: string
  startMs: number
  endMs: number
  isError: boolean
  attributes: Record<string, unknown>
  events: { name: string; attributes: Record<string, unknown> }[]
}

const PYTHON = process.env.REWARDOPS_OTLP_PYTHON ?? 'python3'
const SCRIPT = fileURLToPath(new URL('./main.py', import.meta.url))

export function hasOtlpReceiver(): boolean {
  const check = 'import opentelemetry.proto.collector.trace.v1.trace_service_pb2'
  return spawnSync(PYTHON, ['-c', check]).status === 0
}

/** An OTLP receiver in a separate process, which ends with this process. */
export class OtlpReceiver {
  readonly url: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, port: number) {
    this.#child = child
    this.url = `http://127.0.0.1:${port}`
  }

  /** @throws when the process ends before it listens */
  static async start(): Promise<OtlpReceiver> {
    const child = spawn(PYTHON, [SCRIPT], { stdio: ['pipe', 'pipe', 'inherit'] })
    const lines = createInterface({ input: child.stdout })
    const first = await Promise.race([once(lines, 'line'), once(child, 'exit')])
    if (typeof first[0] !== 'string') throw new Error('the OTLP receiver ended while starting')
    return new OtlpReceiver(child, JSON.parse(first[0]).port)
  }

  async spans(): Promise<DecodedSpan[]> {
    return (await fetch(`${this.url}/spans`)).json()
  }

  async stop(): Promise<void> {
    this.#child.stdin?.end()
    if (this.#child.exitCode === null) await once(this.#child, 'exit')
  }
}
