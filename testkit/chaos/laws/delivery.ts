import type { AnswerEvent, CallEvent } from '../history.ts'
import { expectedScore, isTooLong, sampleOf, type TrainerJob } from '../workload.ts'
import type { Evidence, Violation } from './law.ts'

interface Member {
  index: number
  uid: string
  status: string
  reason: string | null
  score: number | null
}
interface Group {
  uid: string
  seq: number
  samples: Member[]
}
interface Next {
  groups: Group[]
  cursor: string
  done: boolean
}
interface Columns {
  index: number[]
  status: string[]
  reason: (string | null)[]
  score: (number | null)[]
}
interface Single extends Member {
  id: string
}

export function checkDelivery(evidence: Evidence): Violation[] {
  const { events, workload } = evidence
  const answers = events.filter((event): event is AnswerEvent => event.e === 'answer')
  const calls = new Map(
    events.flatMap((event) => (event.e === 'call' ? [[event.n, event] as const] : [])),
  )
  const byKey = new Map<string, AnswerEvent[]>()
  for (const answer of answers) {
    if (answer.status !== 200) continue
    const list = byKey.get(answer.key) ?? []
    list.push(answer)
    byKey.set(answer.key, list)
  }
  const violations = [...checkRefusals(evidence, answers)]
  const isStill = events.some((event) => event.e === 'broken')
  for (const job of workload.jobs) {
    if (job.kind === 'router') violations.push(...checkRouted(job, byKey))
    else if (job.kind === 'single') violations.push(...checkSingles(job, byKey, isStill, evidence))
    else violations.push(...checkBatch(job, byKey, calls, isStill, evidence))
  }
  return violations
}

function checkRefusals({ events }: Evidence, answers: AnswerEvent[]): Violation[] {
  const violations: Violation[] = []
  // From the router address, 502 and 504 mean that no reward model answered. Such answers are not violations.
  const untyped = answers.filter(
    ({ status, op }) =>
      status >= 500 &&
      status !== 503 &&
      !(op.startsWith('/') && (status === 502 || status === 504)),
  )
  if (untyped.length > 0) {
    const [first] = untyped as [AnswerEvent]
    violations.push({
      law: 'refusals',
      message: `${untyped.length} calls were answered ${first.status} ${first.reason}, first ${first.op}: ${first.message}`,
      evidence: untyped,
    })
  }
  for (const event of events) {
    if (event.e !== 'abandoned') continue
    violations.push({ law: 'refusals', message: event.why, evidence: [event] })
  }
  return violations
}

function checkBatch(
  job: TrainerJob,
  byKey: Map<string, AnswerEvent[]>,
  calls: Map<number, CallEvent>,
  isStill: boolean,
  evidence: Evidence,
): Violation[] {
  const violations: Violation[] = []
  const of = (op: string, key = job.key) => (byKey.get(key) ?? []).filter((one) => one.op === op)
  const submits = of('batches.submit')
  if (submits.length === 0) return violations
  const ids = new Set(submits.map(({ data }) => (data as { batchId: string }).batchId))
  if (ids.size > 1) {
    const message = `one idempotency key was acknowledged as ${[...ids].join(' and ')}`
    violations.push({ law: 'duplicates', message: `${job.key}: ${message}`, evidence: submits })
  }
  const chain = of('batches.next')
  violations.push(...checkChain(job, chain, calls))
  const groups = chain.flatMap(({ data }) => (data as Next).groups)
  const isDone = chain.some(({ data }) => (data as Next).done)
  if (isDone) violations.push(...checkComplete(job, groups, chain))
  else if (!isStill) {
    const message = `${job.key}: the batch was acknowledged, but its cursor chain did not end`
    violations.push({ law: 'ended', message, evidence: [...submits, ...chain.slice(-2)] })
  }
  const [reread] = of('batches.next', `${job.key}/reread`)
  if (reread && JSON.stringify((reread.data as Next).groups) !== JSON.stringify(groups)) {
    const message = `${job.key}: a second cursor chain delivers other groups than the first`
    violations.push({ law: 'delivery', message, evidence: [reread] })
  }
  const members = groups.flatMap((group) => group.samples)
  violations.push(...checkScores(job, members, chain, evidence))
  for (const answer of of('batches.results')) {
    const columns = answer.data as Columns
    const differing = members.filter(
      ({ index, status, score, reason }) =>
        columns.status[index] !== status ||
        columns.score[index] !== score ||
        columns.reason[index] !== reason,
    )
    if (differing.length === 0) continue
    const message = `${job.key}: batches.results differs from what batches.next delivered, for samples ${indexes(differing)}`
    violations.push({ law: 'once', message, evidence: [] })
  }
  return violations
}

function checkChain(
  job: TrainerJob,
  chain: AnswerEvent[],
  calls: Map<number, CallEvent>,
): Violation[] {
  const wrong = (message: string, answer: AnswerEvent): Violation => {
    const call = calls.get(answer.n)
    const events = call === undefined ? [answer] : [call, answer]
    return { law: 'delivery', message: `${job.key}: ${message}`, evidence: events }
  }
  let seq = 0
  const uids = new Set<string>()
  for (const answer of chain) {
    const next = answer.data as Next
    for (const group of next.groups) {
      if (group.seq !== seq + 1) return [wrong(`group number ${group.seq} follows ${seq}`, answer)]
      seq = group.seq
      if (uids.has(group.uid)) return [wrong(`group ${group.uid} is delivered twice`, answer)]
      uids.add(group.uid)
      const open = group.samples.filter(({ status }) => status !== 'scored' && status !== 'failed')
      if (open.length > 0)
        return [wrong(`group ${group.uid} is delivered with open samples ${indexes(open)}`, answer)]
    }
    const stands = Number(next.cursor.split('.')[1])
    if (stands !== seq) return [wrong(`the cursor is at ${stands} after group ${seq}`, answer)]
  }
  return []
}

function checkComplete(job: TrainerJob, groups: Group[], chain: AnswerEvent[]): Violation[] {
  const delivered = groups
    .flatMap((group) => group.samples.map(({ index }) => index))
    .sort((a, b) => a - b)
  const twice = delivered.filter((index, at) => index === delivered[at - 1])
  const all = new Set(delivered)
  const missing = Array.from({ length: job.samples }, (_, i) => i).filter((i) => !all.has(i))
  const strangers = groups.flatMap(({ uid, samples }) =>
    samples.filter(({ index }) => index >= job.samples || sampleOf(job, index).uid !== uid),
  )
  const problems = [
    twice.length > 0 ? `samples ${twice.join(', ')} are delivered twice` : '',
    missing.length > 0 ? `samples ${missing.join(', ')} are never delivered` : '',
    strangers.length > 0 ? `samples ${indexes(strangers)} are in a group of another uid` : '',
  ].filter((problem) => problem !== '')
  return problems.map((problem) => ({
    law: 'delivery' as const,
    message: `${job.key}: the cursor chain ended, but ${problem}`,
    evidence: chain.slice(-2),
  }))
}

function checkScores(
  job: TrainerJob,
  members: Member[],
  evidence: AnswerEvent[],
  { schedule }: Evidence,
): Violation[] {
  const wrong = members.filter(
    ({ index, status, score }) => status === 'scored' && score !== expectedScore(job, index),
  )
  const violations: Violation[] = []
  if (wrong.length > 0) {
    const [{ index, score }] = wrong as [Member]
    violations.push({
      law: 'score',
      message: `${job.key}: ${wrong.length} scores are wrong, first sample ${index}: ${score} instead of ${expectedScore(job, index)}`,
      evidence: withMembers(evidence, wrong),
    })
  }
  const allowed = allowedReasons(job, schedule)
  const failed = members.filter(
    ({ index, status, reason }) =>
      status === 'failed' &&
      !allowed.has(reason ?? '') &&
      !(reason === 'context_exceeded' && isTooLong(job, index)),
  )
  if (failed.length > 0) {
    const reasons = [...new Set(failed.map(({ reason }) => reason))].join(', ')
    violations.push({
      law: 'failures',
      message: `${job.key}: samples ${indexes(failed)} failed as ${reasons}, which no fault explains`,
      evidence: withMembers(evidence, failed),
    })
  }
  const scored = members.filter(({ status, score }) => status === 'failed' && score !== null)
  if (scored.length > 0) {
    const message = `${job.key}: failed samples ${indexes(scored)} have a score`
    violations.push({ law: 'failures', message, evidence: withMembers(evidence, scored) })
  }
  return violations
}

function allowedReasons(job: TrainerJob, { faults }: Evidence['schedule']): Set<string> {
  const allowed = new Set<string>()
  if (job.cancelAfterMs !== null) allowed.add('cancelled')
  const kinds = faults.map(({ kind }) => kind)
  const isModelStruck = kinds.some((kind) => kind.startsWith('rm-') || kind === 'net-rm')
  // A short timeout may also expire on a busy machine.
  if (job.scorer === 'model' && (isModelStruck || job.timeoutMs !== null)) {
    for (const reason of ['transport', 'timeout', 'no_server']) allowed.add(reason)
  }
  const losses = kinds.filter((kind) => /^(worker|server|all)-(kill|stop)$/.test(kind))
  if (losses.length >= 3) allowed.add('worker_lost')
  return allowed
}

function checkSingles(
  job: TrainerJob,
  byKey: Map<string, AnswerEvent[]>,
  isStill: boolean,
  evidence: Evidence,
): Violation[] {
  const violations: Violation[] = []
  for (let index = 0; index < job.samples; index++) {
    const answers = byKey.get(`${job.key}/${index}`) ?? []
    const results = answers.map(({ data }) => data as Single)
    if (results.length === 0) {
      if (!isStill) {
        const message = `${job.key}: single sample ${index} has no result`
        violations.push({ law: 'ended', message, evidence: [] })
      }
      continue
    }
    // A result's index is its order of arrival in the implicit batch. The job's index determines the score.
    const members = results.map((result) => ({ ...result, index }))
    violations.push(...checkScores(job, members, answers, evidence))
    const distinct = new Set(results.map(({ id, score, status }) => `${id} ${status} ${score}`))
    if (distinct.size > 1) {
      const message = `${job.key}: one idempotency key returned ${[...distinct].join(' and ')}`
      violations.push({ law: 'duplicates', message, evidence: answers })
    }
  }
  return violations
}

function checkRouted(job: TrainerJob, byKey: Map<string, AnswerEvent[]>): Violation[] {
  for (let index = 0; index < job.samples; index++) {
    for (const answer of byKey.get(`${job.key}/${index}`) ?? []) {
      const score = (answer.data as { score: number }[][])[0]?.[0]?.score
      if (score === expectedScore(job, index)) continue
      const message = `${job.key}: the router address returned ${score} for text ${index} instead of ${expectedScore(job, index)}`
      return [{ law: 'score', message, evidence: [answer] }]
    }
  }
  return []
}

function withMembers(answers: AnswerEvent[], members: Member[]): AnswerEvent[] {
  const wanted = new Set(members.map(({ index }) => index))
  return answers.flatMap((answer) => {
    const { groups } = answer.data as Next
    if (groups === undefined) return [answer]
    const cut = groups
      .map((group) => ({ ...group, samples: group.samples.filter((s) => wanted.has(s.index)) }))
      .filter((group) => group.samples.length > 0)
    return cut.length === 0 ? [] : [{ ...answer, data: { groups: cut } }]
  })
}

function indexes(members: { index: number }[]): string {
  const first = members.slice(0, 10).map(({ index }) => index)
  return `${first.join(', ')}${members.length > 10 ? ` and ${members.length - 10} more` : ''}`
}
