import { spawn } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Engines under test, which run without a GPU. */
export type ReleaseEngine = 'vllm' | 'llamacpp'

export interface Release {
  engine: ReleaseEngine
  version: string
}

/** Niceness of the engines and their installation, so that other work goes first. */
export const LOW_PRIORITY = 15

/** Releases under test, newest first: vLLM's three generations of the scoring protocol, and llama.cpp. */
export const RELEASES: readonly Release[] = [
  { engine: 'vllm', version: '0.32.0' },
  { engine: 'vllm', version: '0.14.0' },
  { engine: 'vllm', version: '0.11.0' },
  { engine: 'llamacpp', version: '2026.10.11549' },
]

/** The release that creates the models: its transformers 4 writes checkpoints that all releases read. */
export const MODEL_MAKER: Release = { engine: 'vllm', version: '0.14.0' }

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SCRIPTS = fileURLToPath(new URL('./python/', import.meta.url))
const TEXTS = join(ROOT, 'examples/data/demo-rollouts.jsonl')

export function nameOf({ engine, version }: Release): string {
  return `${engine}@${version}`
}

/** Folder of environments, models and logs: `REWARDOPS_ENGINES_DIR`, default `.data/engines`. */
export function cacheDir(): string {
  return process.env.REWARDOPS_ENGINES_DIR ?? join(ROOT, '.data/engines')
}

export function scriptPath(name: string): string {
  return join(SCRIPTS, name)
}

export function pythonOf(release: Release): string {
  return join(cacheDir(), 'venvs', `${release.engine}-${release.version}`, 'bin/python')
}

/** The folder of a model, in transformers' format. */
export function modelPath(name: string): string {
  return join(cacheDir(), 'models', name)
}

export function ggufPath(name: string): string {
  return join(cacheDir(), 'gguf', `${name}.gguf`)
}

export async function install(release: Release): Promise<void> {
  const venv = join(cacheDir(), 'venvs', `${release.engine}-${release.version}`)
  if (existsSync(join(venv, '.installed'))) return
  mkdirSync(join(cacheDir(), 'venvs'), { recursive: true })
  const python = process.env.REWARDOPS_ENGINES_PYTHON ?? 'python3'
  if (!existsSync(join(venv, 'bin/python'))) await runCommand(python, ['-m', 'venv', venv])
  await runCommand(join(venv, 'bin/python'), [
    ...[scriptPath('install.py'), venv, release.engine, release.version],
  ])
}

export async function makeModels(): Promise<void> {
  const folder = join(cacheDir(), 'models')
  if (!existsSync(join(folder, 'rank2'))) {
    await install(MODEL_MAKER)
    await runCommand(pythonOf(MODEL_MAKER), [scriptPath('models.py'), folder, TEXTS])
  }
  const gguf = join(cacheDir(), 'gguf')
  const llamacpp = RELEASES.find(({ engine }) => engine === 'llamacpp') as Release
  if (!existsSync(pythonOf(llamacpp)) || existsSync(join(gguf, 'yes.gguf'))) return
  await runCommand(pythonOf(llamacpp), [scriptPath('gguf_models.py'), folder, gguf])
}

async function runCommand(command: string, args: string[]): Promise<void> {
  const child = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, CUDA_VISIBLE_DEVICES: '', HF_HUB_OFFLINE: '1' },
  })
  if (child.pid !== undefined) setPriority(child.pid, LOW_PRIORITY)
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-4_000)
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with exit code ${code}:\n${stderr}`)
}
