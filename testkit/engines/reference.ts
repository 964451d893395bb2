import { type ChildProcess, spawn } from 'node:child_process'
import { setPriority } from 'node:os'
import { createInterface } from 'node:readline'
import { MODEL_MAKER, modelPath, nameOf, pythonOf, type Release, scriptPath } from './cache.ts'

/** Niceness of the transformers process. It is lower than the engines', so that transformers runs first. */
const PRIORITY = 10

/** A text to be scored by transformers; see reference.py. */
export type ReferenceRequest =
  | { messages: { role: string; content: string }[]; special?: boolean }
  | { text: string; special?: boolean }
  | { pair: [string, string] }
  | { llamacpp: [string, string] }

export interface ReferenceAnswer {
  tokens: number
  logits: number[]
}

/** A Python process with one model, kept because loading torch takes longer than all its answers. */
class Reference {
  readonly #child: ChildProcess
  readonly #waiting: { resolve(line: string): void; reject(error: Error): void }[] = []

  constructor(release: Release, model: string) {
    const python = pythonOf(release.engine === 'vllm' ? release : MODEL_MAKER)
    const child = spawn(python, [scriptPath('reference.py'), modelPath(model)], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, CUDA_VISIBLE_DEVICES: '', HF_HUB_OFFLINE: '1' },
    })
    if (child.pid !== undefined) setPriority(child.pid, PRIORITY)
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-2_000)
    })
    createInterface(child.stdout).on('line', (line) => this.#waiting.shift()?.resolve(line))
    child.on('exit', (code) => {
      const error = new Error(`transformers ended with ${code}: ${stderr}`)
      for (const { reject } of this.#waiting.splice(0)) reject(error)
    })
    this.#child = child
  }

  async ask(requests: ReferenceRequest[]): Promise<ReferenceAnswer[]> {
    const line = await new Promise<string>((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#child.stdin?.write(`${JSON.stringify(requests)}\n`)
    })
    return JSON.parse(line) as ReferenceAnswer[]
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}

const references = new Map<string, Reference>()
process.on('exit', endReferences)

/**
 * The logits and token counts from transformers. A vLLM release is compared with its own transformers, because releases
 * tokenize the same text of a checkpoint differently.
 */
export function referenceLogits(
  release: Release,
  model: string,
  requests: ReferenceRequest[],
): Promise<ReferenceAnswer[]> {
  const key = `${nameOf(release)} ${model}`
  const reference = references.get(key) ?? new Reference(release, model)
  references.set(key, reference)
  return reference.ask(requests)
}

export function endReferences(): void {
  for (const reference of references.values()) reference.end()
  references.clear()
}
