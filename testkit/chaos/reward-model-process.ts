import { createServer, type ServerResponse } from 'node:http'
import { HistoryFile } from './history.ts'
import { latencyOf, MAX_TEXT_CHARS, MODEL, markedText, modelScore } from './workload.ts'

/**
 * A simulated reward model in a separate process, with the API of text-embeddings-inference. Its score is a pure function
 * of the text, it refuses texts that are too long, and it records the start and end of each request.
 *
 *   node reward-model-process.ts PORT SERVER_NUMBER HISTORY_FILE MIN_LATENCY_MS MAX_LATENCY_MS
 */
const [port, server, file, minMs, maxMs] = process.argv.slice(2)
const history = new HistoryFile(file as string)
const latencyMs: [number, number] = [Number(minMs), Number(maxMs)]
// A restarted process starts at a number that no earlier process has used.
let calls = Date.now() * 1_000

createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => answer(request.url ?? '', Buffer.concat(chunks).toString(), response))
  request.on('error', () => {})
}).listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'))
process.on('SIGTERM', () => process.exit(0))

function answer(url: string, body: string, response: ServerResponse): void {
  if (url === '/info') {
    send(response, 200, {
      model_id: MODEL,
      version: '1.8.0',
      model_type: { classifier: { id2label: { 0: 'LABEL_0' } } },
      max_input_length: 8_192,
      max_concurrent_requests: 512,
    })
  } else if (url === '/predict') predict(body, response)
  else send(response, url === '/health' ? 200 : 404, {})
}

function predict(body: string, response: ServerResponse): void {
  const { inputs, raw_scores: isRaw } = JSON.parse(body) as {
    inputs: string[][]
    raw_scores?: boolean
  }
  const texts = inputs.map(([text = '']) => markedText(text) ?? { id: null, response: text })
  const n = calls++
  // The texts of self-tests and probes contain no sample id and are not recorded.
  const ids = texts.flatMap(({ id }) => (id === null ? [] : [id]))
  const isRecorded = ids.length > 0
  if (isRecorded) history.add({ e: 'rm-start', at: Date.now(), server: Number(server), n, ids })
  const end = (outcome: 'answered' | 'aborted') => {
    if (isRecorded) history.add({ e: 'rm-end', at: Date.now(), server: Number(server), n, outcome })
  }
  const takesMs = isRecorded
    ? Math.max(...texts.map((text) => latencyOf(text.response, latencyMs)))
    : 1
  const timer = setTimeout(() => {
    response.off('close', onClose)
    // The end is recorded before the answer is sent, so that it precedes the caller's next call.
    end('answered')
    if (texts.some((text) => text.response.length > MAX_TEXT_CHARS)) {
      const error = 'Input validation error: `inputs` must have less than 256 tokens. Given: 400'
      send(response, 413, { error, error_type: 'Validation' })
      return
    }
    const scores = texts.map((text) => modelScore(text.response))
    send(
      response,
      200,
      scores.map((score) => [
        { label: 'LABEL_0', score: isRaw ? score : 1 / (1 + Math.exp(-score)) },
      ]),
    )
  }, takesMs)
  const onClose = () => {
    clearTimeout(timer)
    end('aborted')
  }
  response.once('close', onClose)
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}
