import type { DatabaseState } from '../history.ts'
import { batchKey, runOf } from '../workload.ts'
import type { Evidence, Violation } from './law.ts'

type Batch = DatabaseState['batches'][number]

export function checkStored({ events, workload }: Evidence): Violation[] {
  const last = events.findLast((event) => event.e === 'database')
  if (last === undefined) return []
  const { state } = last
  const violations: Violation[] = []
  const isStill = events.some((event) => event.e === 'broken')
  for (const batch of state.batches) {
    const problems = isStill
      ? countProblems(batch)
      : [...countProblems(batch), ...openProblems(batch)]
    for (const problem of problems) {
      violations.push({
        law: problem.law,
        message: `batch b${batch.id} (${batch.key ?? batch.run}): ${problem.message}`,
        evidence: [{ e: 'database', at: last.at, state: { ...state, batches: [batch] } }],
      })
    }
  }
  for (const job of workload.jobs) {
    if (job.kind === 'router') continue
    const isSingle = job.kind === 'single'
    const own = state.batches.filter((batch) =>
      isSingle ? batch.run === runOf(job) : batch.key === batchKey(job),
    )
    const samples = own.reduce((sum, batch) => sum + batch.samples, 0)
    if (samples > job.samples) {
      const message = `${job.key}: ${job.samples} samples were sent, ${samples} are stored`
      violations.push({ law: 'duplicates', message, evidence: [] })
    }
  }
  const unknown = state.batches.filter(
    (batch) => batch.run === 'chaos' && !workload.jobs.some((job) => batch.key === batchKey(job)),
  )
  if (unknown.length > 0) {
    const message = `batches ${unknown.map(({ id }) => `b${id}`).join(', ')} have a key that the trainer did not send`
    violations.push({ law: 'duplicates', message, evidence: [] })
  }
  const { leases, claims, activeJobs, waitingJobs, inFlight } = state
  const held = { leases, claims, activeJobs, waitingJobs, inFlight }
  if (!isStill && Object.values(held).some((n) => n !== 0)) {
    const message = `leases, claims, jobs or calls remain long after the last sample ended: ${JSON.stringify(held)}`
    violations.push({ law: 'idle', message, evidence: [] })
  }
  return violations
}

interface Problem {
  law: 'once' | 'ended'
  message: string
}

function countProblems(batch: Batch): Problem[] {
  const { samples, scored, failed, pendingRows, scoredRows, failedRows } = batch
  const problems: Problem[] = []
  if (scored !== scoredRows || failed !== failedRows) {
    const message = `counts ${scored} scored and ${failed} failed samples, but ${scoredRows} and ${failedRows} are stored`
    problems.push({ law: 'once', message })
  }
  if (pendingRows + scoredRows + failedRows !== samples) {
    const rows = pendingRows + scoredRows + failedRows
    problems.push({ law: 'once', message: `counts ${samples} samples, but ${rows} are stored` })
  }
  if (batch.wrongGroups > 0) {
    const message = `the counts of ${batch.wrongGroups} groups differ from their samples`
    problems.push({ law: 'once', message })
  }
  return problems
}

function openProblems(batch: Batch): Problem[] {
  const { status, samples, pendingRows, groups, groupsCompleted } = batch
  const problems: Problem[] = []
  if (pendingRows > 0) {
    const message = `${pendingRows} of ${samples} samples are pending, the batch is ${status}`
    problems.push({ law: 'ended', message })
  } else if (status === 'running') {
    problems.push({ law: 'ended', message: 'all samples have ended, the batch is running' })
  }
  if (status !== 'open' && groupsCompleted !== groups) {
    const message = `${groupsCompleted} of ${groups} groups are complete, the batch is ${status}`
    problems.push({ law: 'ended', message })
  }
  return problems
}
