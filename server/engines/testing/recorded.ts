import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Text that stands for {@link LONG_TEXT} in a recorded request. */
export const LONG_MARK = '<long text>'
/** More tokens than any recorded model takes. */
export const LONG_TEXT = 'one two three '.repeat(900)

/** What a real server answered to one request. */
export interface RecordedAnswer {
  /** Name of the served model; the file's `models` says what it is. */
  model: string
  /** The same words for the same request to every release. */
  situation: string
  request: { method: 'GET' | 'POST'; path: string; type?: string; body?: unknown; raw?: string }
  status: number
  /** `content-type`, `allow` and `retry-after`, where they were sent. */
  headers: Record<string, string>
  /** The bytes as they came, but for the folder of Python's packages, which is cut from paths. */
  text: string
}

/** What a recorded model is. */
export interface RecordedModel {
  serves: 'classify' | 'token' | 'pair' | 'generate' | 'embed'
  labels: number
  hasChatTemplate: boolean
  maxModelLen: number
}

/** The answers of one release. */
export interface Recording {
  engine: 'vllm' | 'llamacpp'
  version: string
  models: Record<string, RecordedModel>
  answers: RecordedAnswer[]
}

const FOLDER = join(import.meta.dirname, 'recorded')

/** All recordings, by file name. */
export function recordings(): [name: string, recording: Recording][] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => [name, JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Recording])
}

/** Where the recording of a release is kept. */
export function recordingPath(engine: string, version: string): string {
  return join(FOLDER, `${engine}-${version}.json`)
}

/** The body to send for a recorded request; undefined for one without. */
export function bodyOf({ body, raw }: RecordedAnswer['request']): string | undefined {
  const text = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  return text?.replaceAll(LONG_MARK, LONG_TEXT)
}
