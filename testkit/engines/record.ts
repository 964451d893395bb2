import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'undici'
import {
  bodyOf,
  type RecordedAnswer,
  type RecordedModel,
  type Recording,
  recordingPath,
} from '../../server/engines/testing/recorded.ts'
import { nameOf, type Release } from './cache.ts'
import { EngineProcess } from './engine-process.ts'
import {
  deadVllmSituations,
  llamacppSituations,
  RECORDED_MODELS,
  type Situation,
  vllmSituations,
} from './situations.ts'

const KEPT_HEADERS = ['content-type', 'allow', 'retry-after']
/** The lines of /metrics that report the load. The other lines, hundreds of them, are not recorded. */
const LOAD_LINE = /^(?:vllm:num_requests_(?:running|waiting)|llamacpp:requests_\w+)[{ ].*$/gm

/**
 * Starts the models on the release, sends each the requests of every situation and writes the answers to the recording.
 * Recorded answers of other models are kept.
 */
export async function record(
  release: Release,
  models: string[] | null,
  say: (line: string) => void,
): Promise<void> {
  for (const [model, { kind, ...what }] of Object.entries(RECORDED_MODELS[release.engine])) {
    if (models !== null && !models.includes(model)) continue
    if (model === 'prm' && release.version === '0.11.0') continue
    const { maxModelLen } = what
    const engine = await EngineProcess.start({ release, model, maxModelLen, ...(kind && { kind }) })
    try {
      const situations =
        release.engine === 'vllm' ? vllmSituations(model, what) : llamacppSituations(model, what)
      const answers = await answersTo(engine, situations)
      if (release.engine === 'vllm' && model === 'rm1') {
        await engine.killCompute()
        answers.push(...(await answersTo(engine, deadVllmSituations(model))))
      }
      keep(release, model, what, answers)
      say(`${nameOf(release)} ${model}: ${answers.length} answers`)
    } finally {
      await engine.stop()
    }
  }
}

function keep(
  { engine, version }: Release,
  model: string,
  what: RecordedModel,
  answers: RecordedAnswer[],
): void {
  const path = recordingPath(engine, version)
  const recording: Recording = existsSync(path)
    ? JSON.parse(readFileSync(path, 'utf8'))
    : { engine, version, models: {}, answers: [] }
  recording.models[model] = what
  const others = recording.answers.filter((answer) => answer.model !== model)
  recording.answers = [...others, ...answers]
  writeFileSync(path, stringify(recording))
}

async function answersTo(
  engine: EngineProcess,
  situations: Situation[],
): Promise<RecordedAnswer[]> {
  const answers: RecordedAnswer[] = []
  for (const { situation, request: sent } of situations) {
    const { model } = engine.serving
    try {
      const body = bodyOf(sent)
      const answer = await request(engine.url + sent.path, {
        method: sent.method,
        headers: { 'content-type': sent.type ?? 'application/json' },
        ...(body === undefined ? {} : { body }),
        // vLLM 0.14.0 compiles for a minute at its first request with logprobs.
        headersTimeout: 180_000,
      })
      const text = await answer.body.text()
      const headers = Object.fromEntries(
        KEPT_HEADERS.flatMap((name) => {
          const value = answer.headers[name]
          return typeof value === 'string' ? [[name, value]] : []
        }),
      )
      const kept = sent.path === '/metrics' ? (text.match(LOAD_LINE) ?? []).join('\n') : text
      answers.push({
        ...{ model, situation, request: sent },
        ...{ status: answer.statusCode, headers, text: withoutFolders(kept) },
      })
    } catch (error) {
      // A refused connection of a dead server is recorded. A timeout on a slow machine is not.
      const code = (error as NodeJS.ErrnoException).code ?? ''
      if (code === 'UND_ERR_HEADERS_TIMEOUT') continue
      answers.push({ model, situation, request: sent, status: 0, headers: {}, text: code })
    }
  }
  return answers
}

/** Removes this machine's folders from Python's errors and model lists. */
function withoutFolders(text: string): string {
  return text
    .replace(/[^\s"'\\]*\/site-packages\//g, '')
    .replace(/[^\s"'\\]*\/(?:models|gguf)\/(?=\w+)/g, '')
}

/** Formats a recording with one answer per line, for readable diffs. */
function stringify({ answers, ...head }: Recording): string {
  const lines = answers.map((answer) => `    ${JSON.stringify(answer)}`)
  return `${JSON.stringify(head, null, 2).slice(0, -2)},\n  "answers": [\n${lines.join(',\n')}\n  ]\n}\n`
}
