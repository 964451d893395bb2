import { readFileSync } from 'node:fs'
import { Pool } from 'undici'
import { startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { type Bench, type Emit, withBench } from './harness.ts'
import { type PassThrough, startPassThrough } from './pass-through.ts'
import { classifyBodies } from './rate.ts'
import { median, quantile, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const CONNECTIONS = 64
/**
 * Many short rounds are measured, because other machines on the same host disturb the measurement for one to ten
 * seconds at a time. Such a disturbance affects only a few of the rounds, so their medians stay unaffected.
 */
const ROUND_MS = 2_000
const ROUNDS = 15
const WARM_UP_MS = 4_000
/** Latency of a slow reward model, ms. It is random so that 64 callers do not run in lockstep. */
const SERVICE = 'uniform:20,40'
/**
 * Latencies of the reward model in the measurement at full rate: no latency, which shows the whole cost of a hop, and
 * the latency of a small cross-encoder on a GPU.
 */
const RATES_AT = [null, 'uniform:4,8'] as const
const STREAMS = 8
const REPLIES = 6
const TOKEN_DELAY_MS = 10
const REPLY_TOKENS = 60

/** Compares calls through the router address with direct calls: at full rate, per call, and between two tokens. */
export async function measureProxy(emit: Emit): Promise<void> {
  await withBench({}, async (bench) => {
    const through = await startPassThrough(bench.rm.url)
    try {
      await measureCalls(bench, through, emit)
    } finally {
      await through.stop()
    }
    await measureStream(bench, emit)
  })
}

async function measureCalls(bench: Bench, through: PassThrough, emit: Emit): Promise<void> {
  const bodies = classifyBodies(bench, makeSamples({ ...USUAL_SHAPE, samples: 4_096 }, 1))
  const ways = { direct: bench.rm.url, passThrough: through.url, proxied: bench.service.url }
  for (const url of Object.values(ways)) await calls(url, bodies, WARM_UP_MS)

  const { pids } = await bench.service.health()
  for (const serviceMs of RATES_AT) {
    await bench.rm.control({ latency: serviceMs ?? 0 })
    const cpu = cpuMs(pids.server)
    const stolen = stolenShare()
    const full = await inTurn(ways, bodies)
    const rates = full.map(({ proxied }) => proxied.perSecond)
    const proxied = rates.reduce((sum, perSecond) => sum + perSecond * (ROUND_MS / 1_000), 0)
    emit({
      name: 'proxy.rate',
      serviceMs,
      ...medians(full),
      ratio: rounded(median(ratios(full, 'direct')), 3),
      ratioQuartiles: [0.25, 0.75].map((q) => rounded(quantile(ratios(full, 'direct'), q), 3)),
      ratioToPassThrough: rounded(median(ratios(full, 'passThrough')), 3),
      stolenPercent: rounded(stolen() * 100, 1),
      serviceCpuUsACall: rounded(((cpuMs(pids.server) - cpu) * 1_000) / proxied, 1),
    })
  }

  await bench.rm.control({ latency: SERVICE })
  const stolen = stolenShare()
  const timed = await inTurn(ways, bodies)
  const over = (q: 'p50Ms' | 'p99Ms', way: 'proxied' | 'passThrough') =>
    rounded(median(timed.map((round) => round[way][q] - round.direct[q])), 2)
  emit({
    name: 'proxy.overhead',
    serviceMs: SERVICE,
    ...medians(timed),
    p50OverDirectMs: over('p50Ms', 'proxied'),
    p99OverDirectMs: over('p99Ms', 'proxied'),
    passThroughP50OverDirectMs: over('p50Ms', 'passThrough'),
    stolenPercent: rounded(stolen() * 100, 1),
  })
}

/** CPU time of a process in ms; Linux counts it in steps of 10 ms. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Starts measuring the share of CPU time that the host gave to other machines (steal); 0 if it is not reported. */
function stolenShare(): () => number {
  const read = () => {
    const line = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]!
    // user nice system idle iowait irq softirq steal, in hundredths of a second
    const times = line.trim().split(/\s+/).slice(1, 9).map(Number)
    return { stolen: times[7] ?? 0, all: times.reduce((sum, time) => sum + time, 0) }
  }
  const before = read()
  return () => {
    const after = read()
    return (after.stolen - before.stolen) / Math.max(1, after.all - before.all)
  }
}

interface Round {
  perSecond: number
  p50Ms: number
  p99Ms: number
}

interface Pair {
  direct: Round
  passThrough: Round
  proxied: Round
}

/** Alternates direct, pass-through and proxied calls, so that a slow minute of the machine affects all three. */
async function inTurn(
  ways: Record<keyof Pair, string>,
  bodies: readonly string[],
): Promise<Pair[]> {
  const pairs: Pair[] = []
  for (let i = 0; i < ROUNDS; i++) {
    const direct = await calls(ways.direct, bodies, ROUND_MS)
    const passThrough = await calls(ways.passThrough, bodies, ROUND_MS)
    const proxied = await calls(ways.proxied, bodies, ROUND_MS)
    pairs.push({ direct, passThrough, proxied })
  }
  return pairs
}

/** Measures the rate and the latencies of calls by 64 callers for `forMs`. @throws when an answer has no score */
async function calls(url: string, bodies: readonly string[], forMs: number): Promise<Round> {
  const pool = new Pool(url, { connections: CONNECTIONS, pipelining: 1 })
  const headers = { 'content-type': 'application/json' }
  const times: number[] = []
  const startedAt = performance.now()
  let next = 0
  try {
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        while (performance.now() - startedAt < forMs) {
          const body = bodies[next++ % bodies.length] as string
          const sentAt = performance.now()
          const answer = await pool.request({ path: '/classify', method: 'POST', headers, body })
          const text = await answer.body.text()
          times.push(performance.now() - sentAt)
          if (answer.statusCode !== 200 || !text.includes('"probs"')) {
            throw new Error(`${url} answered ${answer.statusCode}: ${text.slice(0, 200)}`)
          }
        }
      }),
    )
  } finally {
    await pool.destroy()
  }
  return {
    perSecond: (times.length / (performance.now() - startedAt)) * 1_000,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
  }
}

function ratios(pairs: readonly Pair[], to: 'direct' | 'passThrough'): number[] {
  return pairs.map((pair) => pair.proxied.perSecond / pair[to].perSecond)
}

function medians(pairs: readonly Pair[]): Record<string, unknown> {
  const of = (way: keyof Pair) => {
    const middle = (what: keyof Round) => median(pairs.map((pair) => pair[way][what]))
    return {
      perSecond: rounded(middle('perSecond')),
      p50Ms: rounded(middle('p50Ms'), 2),
      p99Ms: rounded(middle('p99Ms'), 2),
      perSecondBest: rounded(Math.max(...pairs.map((pair) => pair[way].perSecond))),
    }
  }
  return {
    connections: CONNECTIONS,
    roundMs: ROUND_MS,
    rounds: pairs.length,
    direct: of('direct'),
    passThrough: of('passThrough'),
    proxied: of('proxied'),
  }
}

/** Measures the time between the chunks of a judge's streamed reply, and the tokens per chunk. */
async function measureStream(bench: Bench, emit: Emit): Promise<void> {
  const judge = await startSimulatedServers([
    '--serves',
    'generate',
    '--model',
    'bench-judge',
    '--token-delay-ms',
    String(TOKEN_DELAY_MS),
    '--reply-tokens',
    String(REPLY_TOKENS),
  ])
  try {
    const url = judge.urls[0] as string
    await bench.api.servers.register.mutate({
      name: 'bench-judge',
      url,
      engine: 'vllm',
      kind: 'generative',
      maxInFlight: 128,
    })
    await streams(url)
    await streams(bench.service.url)
    const direct = await streams(url)
    const proxied = await streams(bench.service.url)
    emit({
      name: 'proxy.stream',
      streams: STREAMS,
      replies: STREAMS * REPLIES,
      tokenDelayMs: TOKEN_DELAY_MS,
      direct,
      proxied,
      gapP50OverDirectMs: rounded(proxied.gapP50Ms - direct.gapP50Ms, 2),
      gapP99OverDirectMs: rounded(proxied.gapP99Ms - direct.gapP99Ms, 2),
    })
  } finally {
    await judge.stop()
  }
}

async function streams(url: string) {
  const pool = new Pool(url, { connections: STREAMS, pipelining: 1 })
  const headers = { 'content-type': 'application/json' }
  const gaps: number[] = []
  let pieces = 0
  let tokens = 0
  try {
    await Promise.all(
      Array.from({ length: STREAMS }, async (_, stream) => {
        for (let i = 0; i < REPLIES; i++) {
          const answer = await pool.request({
            path: '/v1/chat/completions',
            method: 'POST',
            headers,
            body: JSON.stringify({
              model: 'bench-judge',
              stream: true,
              messages: [{ role: 'user', content: `Rate reply ${i} of ${stream}.` }],
            }),
          })
          let lastAt: number | null = null
          for await (const piece of answer.body) {
            const now = performance.now()
            const inIt = String(piece).split('"content":"').length - 1
            if (inIt === 0) continue
            pieces++
            tokens += inIt
            if (lastAt !== null) gaps.push(now - lastAt)
            lastAt = now
          }
        }
      }),
    )
  } finally {
    await pool.destroy()
  }
  return {
    gapP50Ms: rounded(quantile(gaps, 0.5), 2),
    gapP99Ms: rounded(quantile(gaps, 0.99), 2),
    tokens,
    tokensAPiece: rounded(tokens / pieces, 3),
  }
}
