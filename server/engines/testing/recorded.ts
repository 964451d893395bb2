import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const LONG_MARK = '<long text>'
/** A text with more tokens than any recorded model accepts. */
export const LONG_TEXT = 'one two three '.repeat(900)

export interface RecordedAnswer {
  /** The name of the served model, which the file's `models` describes. */
  model: string
  /** The name of the request, which is the same for every release. */
  situation: string
  request: { method: 'GET' | 'POST'; path: string; type?: string; body?: unknown; raw?: string }
  status: number
  /** `content-type`, `allow` and `retry-after`, if sent. */
  headers: Record<string, string>
  /** The body, unchanged except that the folder of Python packages is removed from paths. */
  text: string
}

export interface RecordedModel {
  serves: 'classify' | 'token' | 'pair' | 'generate' | 'embed'
  labels: number
  hasChatTemplate: boolean
  maxModelLen: number
}

export interface Recording {
  engine: 'vllm' | 'llamacpp'
  version: string
  models: Record<string, RecordedModel>
  answers: RecordedAnswer[]
}

const FOLDER = join(import.meta.dirname, 'recorded')

export function recordings(): [name: string, recording: Recording][] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => [name, JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Recording])
}

export function recordingPath(engine: string, version: string): string {
  return join(FOLDER, `${engine}-${version}.json`)
}

export function bodyOf({ body, raw }: RecordedAnswer['request']): string | undefined {
  const text = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  return text?.replaceAll(LONG_MARK, LONG_TEXT)
}
