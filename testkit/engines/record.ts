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
/** Lines of /metrics that the load is read from; the others are hundreds. */
const LOAD_LINE = /^(?:vllm:num_requests_(?:running|waiting)|llamacpp:requests_\w+)[{ ].*$/gm

/**
 * Starts the models on the release, asks each in every situation, and writes the answers to the recording. What is
 * recorded of other models stays.
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
  for (const { situation, request: asked } of situations) {
    const { model } = engine.serving
    try {
      const body = bodyOf(asked)
      const answer = await request(engine.url + asked.path, {
        method: asked.method,
        headers: { 'content-type': asked.type ?? 'application/json' },
        ...(body === undefined ? {} : { body }),
        // 0.14.0 compiles at its first logprobs call for a minute.
        headersTimeout: 180_000,
      })
      const text = await answer.body.text()
      const headers = Object.fromEntries(
        KEPT_HEADERS.flatMap((name) => {
          const value = answer.headers[name]
          return typeof value === 'string' ? [[name, value]] : []
        }),
      )
      const kept = asked.path === '/metrics' ? (text.match(LOAD_LINE) ?? []).join('\n') : text
      answers.push({
        ...{ model, situation, request: asked },
        ...{ status: answer.statusCode, headers, text: withoutFolders(kept) },
      })
    } catch (error) {
      // A dead server refuses the connection, and that is an answer, too; a slow machine is none.
      const code = (error as NodeJS.ErrnoException).code ?? ''
      if (code === 'UND_ERR_HEADERS_TIMEOUT') continue
      answers.push({ model, situation, request: asked, status: 0, headers: {}, text: code })
    }
  }
  return answers
}

/** Python's errors and model lists name files of this machine. */
function withoutFolders(text: string): string {
  return text
    .replace(/[^\s"'\\]*\/site-packages\//g, '')
    .replace(/[^\s"'\\]*\/(?:models|gguf)\/(?=\w+)/g, '')
}

/** One answer a line, so that differences can be read. */
function stringify({ answers, ...head }: Recording): string {
  const lines = answers.map((answer) => `    ${JSON.stringify(answer)}`)
  return `${JSON.stringify(head, null, 2).slice(0, -2)},\n  "answers": [\n${lines.join(',\n')}\n  ]\n}\n`
}
