/**
 * Measures the router's cost in addition to that of undici, with the same calls to the same server process in the same
 * run. Prints one JSON line. `ratio` is the router's time per call relative to a bare loop of `pool.request` (a program
 * without a router). `ratioToDispatch` is the same time relative to a bare loop of `pool.dispatch`, undici's cheapest
 * call. Rounds alternate and medians are printed, because the speed of a machine drifts. CPU time is that of this
 * process.
 *
 *   node bench/router-overhead.ts [--calls 20000] [--rounds 5] [--inflight 64]
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'
import { createRewardRouter } from '../server/router/reward-router.ts'

const ANSWER = JSON.stringify({
  id: 'classify-0',
  object: 'list',
  created: 1,
  model: 'rm',
  data: [{ index: 0, label: 'LABEL_0', probs: [1.25], num_classes: 1 }],
  usage: { prompt_tokens: 700, total_tokens: 700, completion_tokens: 0 },
})
/** A prompt of 1 KB and a response of 2 KB, about as in the other benchmarks. */
const PROMPT = 'How many clips did she sell? '.repeat(36)
const RESPONSE = 'She sold 48 / 2 = 24 clips in May. '.repeat(58)

if (process.argv[2] === 'serve') {
  serve()
} else {
  await main()
}

function serve(): void {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(ANSWER),
      })
      response.end(ANSWER)
    })
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
  process.on('disconnect', () => process.exit(0))
}

interface Round {
  usPerCall: number
  cpuUsPerCall: number
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      calls: { type: 'string', default: '20000' },
      rounds: { type: 'string', default: '5' },
      inflight: { type: 'string', default: '64' },
    },
  })
  const calls = Number(values.calls)
  const rounds = Number(values.rounds)
  const inFlight = Number(values.inflight)
  const child = fork(import.meta.filename, ['serve'])
  const port = await new Promise<number>((resolve) => child.once('message', resolve))
  const origin = `http://127.0.0.1:${port}`

  const pool = new Pool(origin, { connections: inFlight, pipelining: 1 })
  const bare = async (): Promise<void> => {
    const response = await pool.request(classifyCall())
    check(await response.body.json())
  }
  // undici's cheapest call. It uses callbacks instead of a stream, and here it receives the answer in one buffer.
  const dispatched = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let body: Buffer
      pool.dispatch(classifyCall(), {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData(_controller, chunk) {
          body = chunk
        },
        onResponseEnd() {
          check(JSON.parse(body.toString()))
          resolve()
        },
        onResponseError(_controller, error) {
          reject(error)
        },
      })
    })

  const router = createRewardRouter()
  router.setServers([
    {
      id: 1,
      name: 'bench',
      url: origin,
      engine: 'vllm',
      model: 'rm',
      version: null,
      weight: 1,
      maxInFlight: inFlight,
      apiKey: null,
      state: 'ready',
    },
  ])
  router.setSlots(1, inFlight)
  let rows = 0
  const routed = async (): Promise<void> => {
    // Each response differs, because samples with identical texts would share one request.
    const input = { prompt: PROMPT, response: `${rows++}${RESPONSE}` }
    const result = await router.score({ model: 'rm', input, timeoutMs: 30_000, maxAttempts: 4 })
    if (!result.ok || result.score !== 1.25) throw new Error(JSON.stringify(result))
  }

  const bareRounds: Round[] = []
  const dispatchedRounds: Round[] = []
  const routedRounds: Round[] = []
  // The first round of each kind of call is a warm-up and does not count.
  for (let i = 0; i <= rounds; i++) {
    bareRounds.push(await round(bare, calls, inFlight))
    dispatchedRounds.push(await round(dispatched, calls, inFlight))
    routedRounds.push(await round(routed, calls, inFlight))
  }
  await pool.close()
  await router.close()
  await stop(child)

  const bareUs = medianOf(bareRounds, (r) => r.usPerCall)
  const dispatchUs = medianOf(dispatchedRounds, (r) => r.usPerCall)
  const routerUs = medianOf(routedRounds, (r) => r.usPerCall)
  const bareCpuUs = medianOf(bareRounds, (r) => r.cpuUsPerCall)
  const routerCpuUs = medianOf(routedRounds, (r) => r.cpuUsPerCall)
  const result = {
    bench: 'router-overhead',
    calls,
    rounds,
    inFlight,
    bareUs,
    dispatchUs,
    routerUs,
    ratio: rounded(routerUs / bareUs, 3),
    ratioToDispatch: rounded(routerUs / dispatchUs, 3),
    bareCpuUs,
    routerCpuUs,
    cpuRatio: rounded(routerCpuUs / bareCpuUs, 3),
    routerPerSecond: Math.round(1e6 / routerUs),
  }
  process.stdout.write(`${JSON.stringify(result)}\n`)
}

async function round(call: () => Promise<void>, calls: number, inFlight: number): Promise<Round> {
  let left = calls
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left-- > 0) await call()
    }),
  )
  const elapsedMs = performance.now() - startedAt
  const used = process.cpuUsage(cpu)
  return {
    usPerCall: (elapsedMs * 1000) / calls,
    cpuUsPerCall: (used.user + used.system) / calls,
  }
}

function medianOf(rounds: Round[], of: (round: Round) => number): number {
  const values = rounds
    .slice(1)
    .map(of)
    .sort((a, b) => a - b)
  return rounded(values[values.length >> 1] as number, 1)
}

function rounded(value: number, digits: number): number {
  return Math.round(value * 10 ** digits) / 10 ** digits
}

function classifyCall() {
  return {
    path: '/classify',
    method: 'POST' as const,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'rm',
      messages: [
        { role: 'user', content: PROMPT },
        { role: 'assistant', content: RESPONSE },
      ],
      use_activation: false,
      add_special_tokens: false,
    }),
  }
}

function check(answer: unknown): void {
  const { data } = answer as { data: { probs: number[] }[] }
  if (data[0]?.probs[0] !== 1.25) throw new Error('wrong answer')
}

function stop(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.disconnect()
  })
}
