import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { waitFor } from '../service/wait-for.ts'
import { checkHistory } from './checker.ts'
import type { DatabaseState, History, HistoryEvent } from './history.ts'
import type { Schedule } from './schedule.ts'
import { setupNamed } from './setups.ts'
import { TcpProxy } from './tcp-proxy.ts'
import {
  batchKey,
  expectedScore,
  isTooLong,
  runOf,
  sampleOf,
  type TrainerJob,
  workloadOf,
} from './workload.ts'

const SEED = 1
const workload = workloadOf(SEED)
const [job] = workload.jobs as [TrainerJob]
const gated = workload.jobs.find(({ maxConcurrency }) => maxConcurrency !== null) as TrainerJob
const single = workload.jobs.find(({ kind }) => kind === 'single') as TrainerJob
const schedule: Schedule = { seed: SEED, setup: setupNamed('embedded'), faults: [] }

function flawless(): History {
  const events: HistoryEvent[] = [{ e: 'phase', at: 1_000, name: 'work' }]
  const batches: DatabaseState['batches'] = []
  let at = 2_000
  let n = 0
  const answered = (op: string, key: string, data: unknown, detail = {}) => {
    n++
    events.push({ e: 'call', at: at++, n, op, key, detail })
    events.push({ e: 'answer', at: at++, n, op, key, status: 200, data })
  }
  for (const one of workload.jobs) {
    const id = batches.length + 1
    if (one.scorer === 'model') {
      for (let i = 0; i < one.samples; i++) {
        const call = { server: 0, n: at }
        events.push({ e: 'rm-start', at: at++, ...call, ids: [`${one.key}:${i}`] })
        events.push({ e: 'rm-end', at: at++, ...call, outcome: 'answered' })
      }
    }
    const members = Array.from({ length: one.samples }, (_, index) => ({
      index,
      uid: sampleOf(one, index).uid,
      status: isTooLong(one, index) ? 'failed' : 'scored',
      reason: isTooLong(one, index) ? 'context_exceeded' : null,
      score: expectedScore(one, index),
    }))
    const failed = members.filter(({ status }) => status === 'failed').length
    const groups = [...Map.groupBy(members, ({ uid }) => uid)].map(([uid, samples], k) => ({
      uid,
      seq: k + 1,
      samples,
    }))
    if (one.kind === 'router') {
      for (const { index, score } of members)
        answered('/predict', `${one.key}/${index}`, [[{ label: 'LABEL_0', score }]])
      continue
    }
    if (one.kind === 'single') {
      for (const member of members)
        answered('samples.score', `${one.key}/${member.index}`, {
          ...member,
          id: `b${id}-${member.index}`,
        })
    } else {
      answered('batches.submit', one.key, { batchId: `b${id}`, accepted: one.samples })
      const half = Math.ceil(groups.length / 2)
      const part = (from: number, to: number) => ({
        groups: groups.slice(from, to),
        cursor: `b${id}.${to}`,
        done: to === groups.length,
      })
      answered('batches.next', one.key, part(0, half))
      answered('batches.next', one.key, part(half, groups.length))
      const column = (name: 'status' | 'score' | 'reason') => members.map((member) => member[name])
      const columns = { status: column('status'), score: column('score'), reason: column('reason') }
      answered('batches.results', one.key, columns)
      answered('batches.next', `${one.key}/reread`, part(0, groups.length))
    }
    batches.push({
      id,
      key: one.kind === 'single' ? null : batchKey(one),
      run: runOf(one),
      status: 'completed',
      samples: one.samples,
      scored: one.samples - failed,
      failed,
      groups: groups.length,
      groupsCompleted: groups.length,
      pendingRows: 0,
      scoredRows: one.samples - failed,
      failedRows: failed,
      wrongGroups: 0,
    })
  }
  const idle = { leases: 0, claims: 0, activeJobs: 0, waitingJobs: 0, inFlight: 0, hedges: 0 }
  events.push({ e: 'database', at: at++, state: { batches, ...idle } })
  events.push({ e: 'phase', at: at++, name: 'stop' })
  events.push({ e: 'leftover', at: at++, after: 'the end', processes: [] })
  return { seed: SEED, events, unhandled: [] }
}

function lawsBroken(history: History, under: Schedule = schedule): string[] {
  return [
    ...new Set(checkHistory(history, under, workload).violations.map(({ law }) => law)),
  ].sort()
}

function answerTo(history: History, op: string, key = job.key, at = 0) {
  const answers = history.events.filter(
    (event) => event.e === 'answer' && event.op === op && event.key === key,
  )
  // biome-ignore lint/suspicious/noExplicitAny: answers of all procedures.
  return (answers[at] as { data: any }).data
}

function database(history: History): DatabaseState {
  const event = history.events.find(({ e }) => e === 'database')
  return (event as { state: DatabaseState }).state
}

function remove(history: History, isGone: (event: HistoryEvent) => boolean): History {
  return { ...history, events: history.events.filter((event) => !isGone(event)) }
}

function callsAt(from: number, until: number, ids: string[], n = from): HistoryEvent[] {
  return [
    { e: 'rm-start', at: from, server: 0, n, ids },
    { e: 'rm-end', at: until, server: 0, n, outcome: 'answered' },
  ]
}

function withEvents(history: History, more: HistoryEvent[]): History {
  return { ...history, events: [...history.events, ...more].sort((a, b) => a.at - b.at) }
}

test('a flawless history breaks no law', () => {
  expect(checkHistory(flawless(), schedule, workload)).toEqual({
    violations: [],
    notChecked: ['readiness'],
  })
})

test('a wrong score breaks `score`', () => {
  const history = flawless()
  // The answer to the second read of the batch contains the same group objects, so its score changes too.
  answerTo(history, 'batches.next').groups[0].samples[0].score += 0.5
  answerTo(history, 'batches.results').score[0] += 0.5
  expect(lawsBroken(history)).toEqual(['score'])
})

test('a score for a text that the model refuses breaks `score`', () => {
  const history = flawless()
  const index = Array.from({ length: job.samples }, (_, i) => i).find((i) => isTooLong(job, i))
  const scored = { status: 'scored', reason: null, score: 0 }
  for (const [key, at] of [
    [job.key, 0],
    [job.key, 1],
    [`${job.key}/reread`, 0],
  ] as const) {
    const { groups } = answerTo(history, 'batches.next', key, at)
    for (const { samples } of groups)
      for (const member of samples) if (member.index === index) Object.assign(member, scored)
  }
  const columns = answerTo(history, 'batches.results')
  for (const name of ['status', 'reason', 'score'] as const) columns[name][index!] = scored[name]
  expect(lawsBroken(history)).toEqual(['score'])
})

test('a failed sample breaks `failures` unless a fault explains it', () => {
  const history = flawless()
  const failed = { status: 'failed', reason: 'transport', score: null as number | null }
  for (const key of [job.key, `${job.key}/reread`])
    Object.assign(answerTo(history, 'batches.next', key).groups[0].samples[0], failed)
  const columns = answerTo(history, 'batches.results')
  for (const name of ['status', 'reason', 'score'] as const) columns[name][0] = failed[name]
  expect(lawsBroken(history)).toEqual(['failures'])
  const struck = {
    ...schedule,
    faults: [{ kind: 'rm-kill', atMs: 0, forMs: 0, target: 0 } as const],
  }
  expect(lawsBroken(history, struck)).toEqual([])
})

test('a group that is delivered twice or never breaks `delivery`', () => {
  const twice = flawless()
  const next = answerTo(twice, 'batches.next', job.key, 1)
  next.groups.unshift(answerTo(twice, 'batches.next').groups.at(-1))
  expect(lawsBroken(twice)).toEqual(['delivery'])
  const never = flawless()
  answerTo(never, 'batches.next', job.key, 1).groups.pop()
  answerTo(never, 'batches.next', `${job.key}/reread`).groups.pop()
  expect(lawsBroken(never)).toContain('delivery')
})

test('a second cursor chain that differs breaks `delivery`, and results that differ break `once`', () => {
  const chain = flawless()
  answerTo(chain, 'batches.next', `${job.key}/reread`).groups.reverse()
  expect(lawsBroken(chain)).toEqual(['delivery'])
  const results = flawless()
  answerTo(results, 'batches.results').status[3] = 'queued'
  expect(lawsBroken(results)).toEqual(['once'])
})

test('an acknowledged batch that never ends breaks `ended`', () => {
  const history = remove(
    flawless(),
    (event) =>
      'key' in event && event.key === job.key && 'op' in event && event.op === 'batches.next',
  )
  Object.assign(database(history).batches[0]!, {
    status: 'running',
    pendingRows: 2,
    scoredRows: database(history).batches[0]!.scoredRows - 2,
    scored: database(history).batches[0]!.scored - 2,
  })
  expect(lawsBroken(history)).toContain('ended')
})

test('counts that differ from the stored samples break `once`', () => {
  const history = flawless()
  database(history).batches[0]!.scored++
  expect(lawsBroken(history)).toEqual(['once'])
  const groups = flawless()
  database(groups).batches[1]!.wrongGroups = 1
  expect(lawsBroken(groups)).toEqual(['once'])
})

test('an idempotency key with two batches or two results breaks `duplicates`', () => {
  const history = flawless()
  const again = { ...answerTo(history, 'batches.submit'), batchId: 'b99' }
  const doubled: HistoryEvent = {
    e: 'answer',
    at: 2_500,
    n: 9_999,
    op: 'batches.submit',
    key: job.key,
    status: 200,
    data: again,
  }
  expect(lawsBroken(withEvents(history, [doubled]))).toEqual(['duplicates'])
  const key = `${single.key}/0`
  const other = { ...answerTo(history, 'samples.score', key), id: 'b1-77' }
  const second: HistoryEvent = {
    e: 'answer',
    at: 1e9,
    n: 9_998,
    op: 'samples.score',
    key,
    status: 200,
    data: other,
  }
  expect(lawsBroken(withEvents(history, [second]))).toEqual(['duplicates'])
})

test('an internal error breaks `refusals`', () => {
  const answer: HistoryEvent = {
    e: 'answer',
    at: 3_000,
    n: 9_999,
    op: 'batches.next',
    key: job.key,
    status: 500,
    reason: 'internal',
    message: 'x',
  }
  expect(lawsBroken(withEvents(flawless(), [answer]))).toEqual(['refusals'])
})

test('more calls in flight than the limit break `limit`, unless a worker was stopped', () => {
  const late = 1e9
  const many = Array.from({ length: workload.maxInFlight + 1 }, (_, k) =>
    callsAt(late + k, late + 500, [`x:${k}`]),
  ).flat()
  const history = withEvents(flawless(), many)
  expect(lawsBroken(history)).toEqual(['limit'])
  const stop: HistoryEvent = { e: 'fault', at: late + 1, kind: 'worker-stop', what: 'worker' }
  expect(lawsBroken(withEvents(history, [stop]))).toEqual([])
})

test('more samples of a batch in flight than its maxConcurrency break `limit`', () => {
  const late = 1e9
  const ids = Array.from(
    { length: (gated.maxConcurrency as number) + 1 },
    (_, k) => `${gated.key}:9${k}9`,
  )
  const calls = ids
    .slice(0, workload.maxInFlight)
    .flatMap((id, k) => callsAt(late, late + 500, [id], k))
  const isSeen = ids.length <= workload.maxInFlight
  expect(lawsBroken(withEvents(flawless(), calls))).toEqual(isSeen ? ['limit'] : [])
})

test('a text that is scored again breaks `calls`, unless a worker was killed or stopped', () => {
  const late = 1e9
  const calls = [
    ...callsAt(late, late + 10, ['x:1']),
    ...callsAt(late + 3_000, late + 3_010, ['x:1']),
  ]
  const history = withEvents(flawless(), calls)
  expect(lawsBroken(history)).toEqual(['calls'])
  const kill: HistoryEvent = { e: 'fault', at: late + 20, kind: 'worker-kill', what: 'worker' }
  expect(lawsBroken(withEvents(history, [kill]))).toEqual([])
  // A killed worker explains the second call, even if an outage ended before the first call.
  const unready: HistoryEvent = { e: 'ready', at: late - 5_000, server: 0, status: 503 }
  const ready: HistoryEvent = { ...unready, at: late - 4_000, status: 200 }
  const earlier: HistoryEvent[] = [
    { e: 'fault', at: late - 5_500, kind: 'read-only', what: 'database' },
    { e: 'healed', at: late - 4_500, kind: 'read-only', what: 'database' },
    ...[unready, ready],
  ]
  expect(lawsBroken(withEvents(history, [...earlier, kill]))).toEqual([])
  // A worker killed before both calls cannot have made either.
  expect(lawsBroken(withEvents(history, [{ ...kill, at: late - 1_000 }]))).toEqual(['calls'])
  const outage: HistoryEvent = { e: 'fault', at: late + 20, kind: 'read-only', what: 'database' }
  expect(lawsBroken(withEvents(history, [outage]))).toEqual(['calls'])
  // A worker stopped for over 4 s may be declared dead. After it is resumed, it works until its next report.
  const stop = (forMs: number): HistoryEvent[] => [
    { e: 'fault', at: late - forMs - 500, kind: 'worker-stop', what: 'worker' },
    { e: 'healed', at: late - 500, kind: 'worker-stop', what: 'worker' },
  ]
  expect(lawsBroken(withEvents(history, stop(4_500)))).toEqual([])
  expect(lawsBroken(withEvents(history, stop(3_000)))).toEqual(['calls'])
})

test('a single sample whose direct score took over 8 ms may be scored again, once stored', () => {
  const late = 1e9
  const call = { e: 'call', n: 1, op: 'samples.score', key: 'x/1', detail: {} } as const
  const callOf = (beforeMs: number): HistoryEvent => ({ ...call, at: late - beforeMs })
  const again = callsAt(late + 20, late + 22, ['x:1'], 1)
  const calls = [...callsAt(late, late + 2, ['x:1']), ...again]
  const found = (...events: HistoryEvent[]) =>
    checkHistory(withEvents(flawless(), [...events, ...calls]), schedule, workload)
      .violations.filter(({ law }) => law === 'calls')
      .map(({ message }) => message)
  expect(found(callOf(12))).toEqual([])
  expect(found(callOf(3))).toHaveLength(1)
  expect(found(callOf(12), { ...call, at: late + 500 })).toEqual([])
})

test('a request that is split breaks `calls`, unless its answer was late', () => {
  const late = 1e9
  const calls = [
    ...callsAt(late, late + 10, ['x:1', 'x:2']),
    ...callsAt(late + 120, late + 125, ['x:1']),
  ]
  const history = withEvents(flawless(), calls)
  expect(lawsBroken(history)).toEqual(['calls'])
  const delay: HistoryEvent = { e: 'delayed', at: late + 110, forMs: 90 }
  expect(lawsBroken(withEvents(history, [delay]))).toEqual([])
  expect(lawsBroken(withEvents(history, [{ ...delay, at: late - 5 }]))).toEqual(['calls'])
  const slow = [
    ...callsAt(late, late + 90, ['x:1', 'x:2']),
    ...callsAt(late + 92, late + 95, ['x:1']),
  ]
  expect(lawsBroken(withEvents(flawless(), slow))).toEqual([])
  // Seed 26006: on a busy machine, the model received the request late and the worker read the answer late.
  const busy = [
    ...callsAt(late, late + 14, ['x:1', 'x:2']),
    ...callsAt(late + 45, late + 47, ['x:1']),
  ]
  expect(lawsBroken(withEvents(flawless(), busy))).toEqual(['calls'])
  const slowness: HistoryEvent = { e: 'slowness', at: late, factor: 2 }
  expect(lawsBroken(withEvents(flawless(), [...busy, slowness]))).toEqual([])
})

test('a lease at idle, an unhandled error, a leftover process and an exit by a signal break their laws', () => {
  const held = flawless()
  database(held).leases = 1
  expect(lawsBroken(held)).toEqual(['idle'])
  expect(
    lawsBroken({ ...flawless(), unhandled: ['server-0.log: UnhandledPromiseRejection'] }),
  ).toEqual(['log'])
  const left: HistoryEvent = { e: 'leftover', at: 1e9, after: 'the end', processes: ['17 S node'] }
  expect(lawsBroken(withEvents(flawless(), [left]))).toEqual(['leftover'])
  const exit: HistoryEvent = {
    e: 'exit',
    at: 1e9,
    who: 'server-0',
    code: null,
    signal: 'SIGTERM',
    wasUp: true,
    ageMs: 200,
  }
  expect(lawsBroken(withEvents(flawless(), [exit]))).toEqual(['exit'])
  const fault: HistoryEvent = { e: 'fault', at: 1e9 - 10, kind: 'server-term', what: 'server-0' }
  const early: HistoryEvent = { ...exit, wasUp: false }
  expect(lawsBroken(withEvents(flawless(), [fault, early]))).toEqual([])
  const late: HistoryEvent = { ...early, ageMs: 1_000 }
  expect(lawsBroken(withEvents(flawless(), [fault, late]))).toEqual(['exit'])
  const forced: HistoryEvent = { ...exit, code: 1, signal: null }
  const term: HistoryEvent = { e: 'fault', at: exit.at - 50, kind: 'server-term', what: exit.who }
  expect(lawsBroken(withEvents(flawless(), [term, forced]))).toEqual(['exit'])
  const again = { ...term, at: exit.at - 10 }
  expect(lawsBroken(withEvents(flawless(), [term, again, forced]))).toEqual([])
})

test('`/readyz` breaks `readiness` if it contradicts the writes', () => {
  const probes = (status: number, ok: boolean): HistoryEvent[] =>
    Array.from({ length: 40 }, (_, k): HistoryEvent[] => [
      { e: 'write', at: 1e9 + 250 * k, ok },
      { e: 'ready', at: 1e9 + 250 * k + 1, server: 0, status },
    ]).flat()
  expect(lawsBroken(withEvents(flawless(), probes(200, true)))).toEqual([])
  expect(lawsBroken(withEvents(flawless(), probes(503, false)))).toEqual([])
  const isBack: HistoryEvent[] = [
    { e: 'ready', at: 1e9 + 10_000, server: 0, status: 200 },
    { e: 'write', at: 1e9 + 10_010, ok: true },
  ]
  expect(lawsBroken(withEvents(flawless(), [...probes(503, false), ...isBack]))).toEqual([])
  expect(lawsBroken(withEvents(flawless(), probes(200, false)))).toEqual(['readiness'])
  expect(lawsBroken(withEvents(flawless(), probes(503, true)))).toEqual(['readiness'])
})

test('refused calls of the trainer contradict `/readyz` unless a write succeeded since', () => {
  const refused = Array.from({ length: 20 }, (_, k): HistoryEvent => {
    const at = 1e9 + 250 * k
    const answer = { op: 'batches.submit', key: 'refused', status: 503 } as const
    return { e: 'answer', at, n: 9_000 + k, ...answer, reason: 'database_unavailable' }
  })
  const between: HistoryEvent[] = [
    { e: 'write', at: 1e9 + 4_010, ok: true },
    { e: 'ready', at: 1e9 + 4_020, server: 0, status: 200 },
  ]
  const history = withEvents(flawless(), [...refused, ...between])
  expect(lawsBroken(history)).toEqual([])
  expect(lawsBroken(withEvents(flawless(), [...refused, ...between.slice(1)]))).toEqual([
    'readiness',
  ])
  // On a full disk, a write can succeed because it fits in an existing page. A successful write therefore does not
  // prove that the outage has ended.
  const smallDisk = { ...schedule, setup: setupNamed('small-disk') }
  expect(lawsBroken(history, smallDisk)).toContain('readiness')
})

test('a link keeps the order of its bytes when its delay ends', async () => {
  const received: string[] = []
  const target = createServer((socket) => {
    socket.setEncoding('utf8').on('data', (text) => received.push(String(text)))
    socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(target, 'listening')
  const proxy = await TcpProxy.start((target.address() as AddressInfo).port)
  const client = connect({ port: proxy.port, host: '127.0.0.1' })
  client.on('error', () => {})
  await once(client, 'connect')
  try {
    proxy.set('delay', 150)
    client.write('A')
    await new Promise((resolve) => setTimeout(resolve, 50))
    proxy.set('pass')
    client.write('B')
    await waitFor('both bytes', () => received.join('').length === 2)
    expect(received.join('')).toBe('AB')
  } finally {
    client.destroy()
    proxy.cut()
    target.close()
  }
})
