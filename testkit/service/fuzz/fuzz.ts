import fc from 'fast-check'
import { Agent } from 'undici'
import { type Call, callsOf, type Target } from './calls.ts'
import { send } from './send.ts'
import { judge } from './verdict.ts'

export interface Fault {
  seed: number
  /** The call's number; the same seed and number make the same call. */
  number: number
  fault: string
  request: string
  answer: string
}

export interface Tally {
  calls: number
  kinds: Map<string, number>
  faults: Fault[]
  /** The answer that took longest, ms. Calls whose caller disconnected do not count. */
  slowest: { ms: number; kind: string }
}

export interface FuzzOptions {
  origin: string
  target: Target
  seed: number
  calls: number
  /** The number of the first call to send. Default: 0. */
  from?: number
  /** Texts that no answer may contain, such as the path of the data folder. */
  secrets: readonly string[]
  concurrency?: number
}

/** Faults beyond this number are counted by kind only. */
const MAX_FAULTS = 200

export async function fuzz(options: FuzzOptions): Promise<Tally> {
  const { origin, target, seed, calls, secrets, from = 0, concurrency = 12 } = options
  const arbitrary = callsOf(target)
  const agent = new Agent({
    connections: concurrency,
    pipelining: 1,
    bodyTimeout: 0,
    headersTimeout: 0,
  })
  const tally: Tally = { calls: 0, kinds: new Map(), faults: [], slowest: { ms: 0, kind: '' } }
  let next = from
  const one = async () => {
    for (let number = next++; number < from + calls; number = next++) {
      const call = callOf(arbitrary, seed, number)
      const answer = await send(origin, agent, call)
      const { kind, fault } = judge(call, answer, secrets)
      tally.calls++
      tally.kinds.set(kind, (tally.kinds.get(kind) ?? 0) + 1)
      if (answer.end !== 'left' && answer.ms > tally.slowest.ms)
        tally.slowest = { ms: answer.ms, kind }
      if (fault !== null && tally.faults.length < MAX_FAULTS) {
        const { status, end, text } = answer
        const shown = `${status ?? end} ${text.slice(0, 600)}`
        tally.faults.push({ seed, number, fault, request: written(call), answer: shown })
      }
    }
  }
  await Promise.all(Array.from({ length: concurrency }, one))
  await agent.destroy()
  return tally
}

function callOf(arbitrary: fc.Arbitrary<Call>, seed: number, number: number): Call {
  return fc.sample(arbitrary, { seed: (seed * 1_000_003 + number) | 0, numRuns: 1 })[0] as Call
}

function written({ method, path, headers, body, raw }: Call): string {
  if (raw !== undefined) return JSON.stringify(raw.toString('latin1').slice(0, 2_000))
  const sent = body === null ? '' : ` ${JSON.stringify(body.toString('utf8').slice(0, 3_000))}`
  return `${method} ${path.slice(0, 3_000)} ${JSON.stringify(headers).slice(0, 1_000)}${sent}`
}
