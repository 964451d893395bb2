import { join } from 'node:path'
import type { Law } from './laws/law.ts'
import type { FaultKind } from './schedule.ts'

/** A change to a file that contains `find` exactly once. `sql:NAME` is the file of an SQL function. */
export interface Patch {
  file: string
  find: string
  replace: string
}

export interface PlantedBug {
  name: string
  patches: Patch[]
  /** The bug breaks at least one of these laws. */
  laws: Law[]
  kinds: FaultKind[]
  setup?: string
}

const WORKER = 'server/worker/reward-loop-worker.ts'
const LEASES = 'server/cluster/lease-holder.ts'
const READER = 'server/batches/batch-reader.ts'

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'hand-back-loses-one',
    patches: [
      {
        file: WORKER,
        find: '.requeue(job, indexes, Math.max(0, untilMs - performance.now()))',
        replace: '.requeue(job, indexes.slice(1), Math.max(0, untilMs - performance.now()))',
      },
      // After the usual drain time of 5 s, few samples would be left to requeue.
      {
        file: 'server/worker/main.ts',
        find: 'const DRAIN_MS = 5_000',
        replace: 'const DRAIN_MS = 300',
      },
    ],
    laws: ['log', 'ended'],
    kinds: ['worker-term', 'server-term'],
  },
  {
    name: 'complete-before-commit',
    patches: [
      {
        file: WORKER,
        find: '    job.uncommitted.add(index)\n',
        replace:
          '    job.uncommitted.add(index)\n    if (job.open.size === 0) this.#finishJob(job)\n',
      },
      // The longer interval makes it likely that a kill comes before the flush.
      {
        file: 'server/worker/result-writer.ts',
        find: 'const FLUSH_MS = 40',
        replace: 'const FLUSH_MS = 2_000',
      },
    ],
    laws: ['log', 'ended'],
    kinds: ['worker-kill', 'all-kill'],
  },
  {
    name: 'flush-counts-ended-samples',
    patches: [
      {
        file: 'sql:flush_results',
        find: 'AND s.idx = r.idx AND s.status = 0',
        replace: 'AND s.idx = r.idx',
      },
      {
        file: 'server/worker/result-writer.ts',
        find: 'if (attempts === null) return (await this.#db.pool.query<{ n: number }>(flush)).rows[0]!.n',
        replace:
          'if (attempts === null) {\n      await this.#db.pool.query(flush)\n      return (await this.#db.pool.query<{ n: number }>(flush)).rows[0]!.n\n    }',
      },
    ],
    laws: ['once', 'ended', 'calls', 'failures', 'delivery'],
    kinds: ['none'],
  },
  {
    name: 'late-result-overwrites',
    patches: [
      {
        file: 'sql:flush_results',
        find: 'AND s.idx = r.idx AND s.status = 0',
        replace: 'AND s.idx = r.idx',
      },
    ],
    // `log`: a constraint refuses further results of a complete group, and the worker logs the error.
    laws: ['log', 'once', 'ended', 'delivery'],
    kinds: ['worker-stop'],
  },
  {
    name: 'failed-flush-reported-as-written',
    patches: [
      {
        file: 'server/worker/result-writer.ts',
        find: '      written = false\n',
        replace: '',
      },
      {
        file: 'server/worker/result-writer.ts',
        find: '    const attempts = attemptsStatement(this.#workerId, samples)\n',
        replace:
          "    if (Math.random() < 0.1) throw Object.assign(new Error('planted'), { code: 'XX000' })\n    const attempts = attemptsStatement(this.#workerId, samples)\n",
      },
    ],
    laws: ['calls', 'log', 'ended'],
    kinds: ['none'],
  },
  {
    name: 'lease-ignores-others',
    patches: [
      {
        file: 'sql:renew_lease',
        find: 'SELECT coalesce(sum(slots), 0), coalesce(sum(slots) FILTER',
        replace: 'SELECT 0, coalesce(sum(slots) FILTER',
      },
      {
        file: 'sql:renew_lease',
        find: 'give := least(r.demand, (remaining + n - 1) / greatest(n, 1));',
        replace: 'give := least(r.demand, p_limit);',
      },
    ],
    laws: ['limit'],
    kinds: ['none'],
  },
  {
    name: 'one-call-beyond-the-lease',
    patches: [
      {
        file: LEASES,
        find: 'this.#setSlots(lease, slots, othersSlots)',
        replace: 'this.#setSlots(lease, slots + 1, othersSlots)',
      },
    ],
    laws: ['limit'],
    kinds: ['none'],
  },
  {
    name: 'lapsed-lease-is-used',
    patches: [
      {
        file: LEASES,
        find: 'lease.untilMs = sentAt + TTL_MS - MARGIN_MS',
        replace: 'lease.untilMs = sentAt + 3_600_000',
      },
      {
        file: LEASES,
        find: 'if (lease.slots > inFlight) this.#setSlots(lease, inFlight)',
        replace: '',
      },
      // Other processes get the slots of an expired lease immediately, and not after 30 s, when the work is over.
      {
        file: LEASES,
        find: 'graceMs: resource.graceMs ?? 0,',
        replace: 'graceMs: 0,',
      },
      // With this lifetime, leases expire between two renewals even without a fault.
      {
        file: LEASES,
        find: 'const TTL_MS = 2_000',
        replace: 'const TTL_MS = 500',
      },
    ],
    laws: ['limit'],
    kinds: ['none'],
  },
  {
    name: 'lease-kept-at-idle',
    patches: [
      {
        file: LEASES,
        find: 'const inFlight = resource.inFlight()\n',
        replace: 'const inFlight = resource.inFlight() + (lease.slots > 0 ? 1 : 0)\n',
      },
    ],
    laws: ['idle', 'limit'],
    kinds: ['none'],
  },
  {
    name: 'lease-forgotten-on-renewal',
    patches: [
      {
        file: 'sql:renew_lease',
        find: "AND expires_at + grace_ms * interval '1 millisecond' < clock_timestamp();",
        replace: "AND expires_at < clock_timestamp() + interval '1.4 seconds';",
      },
    ],
    laws: ['limit'],
    kinds: ['none'],
  },
  {
    name: 'cursor-delivers-the-last-group-again',
    patches: [
      {
        file: 'server/store/sql/results.ts',
        find: 'from sample_group where batch_id = $1 and seq > $2) t',
        replace: 'from sample_group where batch_id = $1 and seq >= $2) t',
      },
    ],
    laws: ['delivery'],
    kinds: ['none'],
  },
  {
    name: 'group-without-its-last-member',
    patches: [
      {
        file: READER,
        find: 'const members = byGroup.get(group.no) ?? []\n',
        replace: 'const members = (byGroup.get(group.no) ?? []).slice(0, 7)\n',
      },
    ],
    laws: ['delivery'],
    kinds: ['none'],
  },
  {
    name: 'gap-in-completion-numbers',
    patches: [
      {
        file: 'sql:settle_groups',
        find: 'SET seq = before + t.rank,',
        replace: 'SET seq = before + t.rank + 1,',
      },
    ],
    laws: ['delivery', 'ended'],
    kinds: ['none'],
  },
  {
    name: 'groups-completed-together-count-once',
    patches: [
      {
        file: 'sql:settle_groups',
        find: 'groups_completed = groups_completed + done,',
        replace: 'groups_completed = groups_completed + least(done, 1),',
      },
    ],
    laws: ['delivery', 'ended', 'once'],
    kinds: ['none'],
  },
  {
    name: 'batch-ends-before-its-last-samples',
    patches: [
      {
        file: 'sql:settle_groups',
        find: 'WHEN closed AND completed_at IS NULL AND scored + failed + b.ended = samples\n                                     AND groups_completed + done = groups',
        replace:
          'WHEN closed AND completed_at IS NULL AND scored + failed + b.ended >= samples - 3',
      },
    ],
    laws: ['delivery', 'ended', 'once'],
    kinds: ['none'],
  },
  {
    name: 'cancel-counts-no-group',
    patches: [
      {
        file: 'sql:end_pending',
        find: 'PERFORM settle_groups(batches, groups, ended, ended, zeros, NULL);\n    END IF;\n    -- Notifies workers',
        replace: 'NULL;\n    END IF;\n    -- Notifies workers',
      },
    ],
    laws: ['once', 'ended'],
    kinds: ['none'],
  },
  {
    name: 'dead-worker-never-swept',
    patches: [
      {
        file: 'server/background/worker-supervisor.ts',
        find: 'return requeueSilent(db, queue, silent, knownAlone)',
        replace: 'return requeueSilent(db, queue, [], knownAlone)',
      },
      {
        file: 'server/background/worker-supervisor.ts',
        find: 'void this.requeue(pid)',
        replace: '{}',
      },
      {
        file: 'server/store/job-queue.ts',
        find: 'heartbeatSeconds: 10,',
        replace: 'heartbeatSeconds: 3_600,',
      },
    ],
    laws: ['log', 'ended', 'idle'],
    kinds: ['worker-kill'],
  },
  {
    name: 'jobs-are-not-claimed',
    patches: [
      {
        file: 'server/store/sql/claims.ts',
        find: 'do update set worker_id = excluded.worker_id, claimed_at = now()\n',
        replace: 'do update set worker_id = claim.worker_id\n',
      },
      {
        file: 'server/store/sql/claims.ts',
        find: "where not exists (select from process where id = $3 and state = 'dead')",
        replace: 'where false',
      },
      // The shorter time requeues jobs of live workers, and the larger intake keeps jobs open for longer.
      {
        file: 'server/background/worker-supervisor.ts',
        find: 'const CLAIMED_BY_MS = 1_500',
        replace: 'const CLAIMED_BY_MS = 500',
      },
      {
        file: 'server/worker/intake.ts',
        find: 'const AHEAD_MS = 100',
        replace: 'const AHEAD_MS = 5_000',
      },
    ],
    laws: ['calls', 'ended'],
    kinds: ['worker-kill'],
  },
  {
    name: 'failure-scored-as-zero',
    patches: [
      {
        file: 'server/worker/sample-end.ts',
        find: 'score: outcome.ok ? outcome.score : substituted ? onFailure.value : null,',
        replace: 'score: outcome.ok ? outcome.score : 0,',
      },
      {
        file: 'server/worker/sample-end.ts',
        find: 'reason: outcome.ok ? null : outcome.reason,\n    substituted',
        replace: 'reason: null,\n    substituted',
      },
    ],
    laws: ['score'],
    kinds: ['none'],
  },
  {
    name: 'scores-of-one-call-in-reverse',
    patches: [
      {
        file: 'server/engines/tei.ts',
        find: "scores.push(typeof score === 'number' ? { ok: true, score } : score)",
        replace: "scores.unshift(typeof score === 'number' ? { ok: true, score } : score)",
      },
      // This patch uses micro-batching even if the worker has time for single requests.
      {
        file: 'server/router/micro-batcher.ts',
        find: ' || !isBusy(nowMs)',
        replace: '',
      },
      {
        file: 'server/router/micro-batcher.ts',
        find: 'const SEEN_SAMPLES = 64',
        replace: 'const SEEN_SAMPLES = 8',
      },
    ],
    laws: ['score'],
    kinds: ['none'],
  },
  {
    name: 'score-of-the-previous-text',
    patches: [
      {
        file: 'server/engines/tei.ts',
        find: "  if (typeof score !== 'number') return score\n",
        replace:
          "  if (typeof score !== 'number') return score\n  const last = previous\n  previous = score\n  if ((last * 4_096) % 16 === 0) return { ok: true, score: last }\n",
      },
      {
        file: 'server/engines/tei.ts',
        find: 'const microBatch: MicroBatchProtocol = {',
        replace: 'let previous = 1\n\nconst microBatch: MicroBatchProtocol = {',
      },
    ],
    laws: ['score'],
    kinds: ['none'],
  },
  {
    name: 'idempotency-key-ignored',
    patches: [
      {
        file: 'server/store/sql/accept.ts',
        find: 'envelope.idempotencyKey ?? null,',
        replace: 'null,',
      },
    ],
    laws: ['duplicates'],
    kinds: ['none'],
  },
  {
    name: 'score-key-forgotten',
    patches: [
      {
        file: 'server/store/sql/append.ts',
        find: "'select batch_id, idx, content_hash from score_key where key = $1'",
        replace: "'select batch_id, idx, content_hash from score_key where key = $1 and false'",
      },
    ],
    laws: ['refusals', 'duplicates', 'ended'],
    kinds: ['none'],
  },
  {
    name: 'repeated-append-stored-again',
    patches: [
      {
        file: 'server/batches/accept/accept-batch.ts',
        find: 'if (startIndex < batch.samples && draft.count > 0) {',
        replace: 'if (startIndex < 0) {',
      },
    ],
    laws: ['refusals', 'duplicates', 'once', 'ended'],
    kinds: ['none'],
  },
  {
    name: 'answered-call-made-again',
    patches: [
      {
        file: WORKER,
        find: '    const outcome = afterCalls(earlier, await runManager(batch, row, context))\n',
        replace:
          '    if (row.idx % 10 === 3) await runManager(batch, row, context)\n    const outcome = afterCalls(earlier, await runManager(batch, row, context))\n',
      },
    ],
    laws: ['calls'],
    kinds: ['none'],
  },
  {
    name: 'slot-leaks-at-the-gate',
    patches: [
      {
        file: 'server/worker/slot-gate.ts',
        find: '        this.#inside.delete(slot)\n',
        replace: '        if (this.#left++ % 8 !== 7) this.#inside.delete(slot)\n',
      },
      {
        file: 'server/worker/slot-gate.ts',
        find: '  readonly #inside = new Set<AbortController>()\n',
        replace: '  readonly #inside = new Set<AbortController>()\n  #left = 0\n',
      },
    ],
    laws: ['ended', 'idle'],
    kinds: ['none'],
  },
  {
    name: 'in-flight-counter-leaks',
    patches: [
      {
        file: 'server/router/pool-server.ts',
        find: '    this.#inFlight--\n',
        replace: '    if (this.requests % 30 !== 29) this.#inFlight--\n',
      },
    ],
    laws: ['ended', 'idle'],
    kinds: ['none'],
  },
  {
    name: 'worker-outlives-its-server',
    patches: [
      {
        file: 'server/stop-request.ts',
        find: "process.once('disconnect', orphaned)",
        replace: "process.once('disconnect', () => {})",
      },
    ],
    laws: ['leftover', 'calls', 'limit'],
    kinds: ['server-kill'],
    setup: 'own',
  },
  {
    name: 'acknowledged-before-it-is-on-disk',
    patches: [
      // All commits are asynchronous and the WAL writer is slow. Otherwise another commit that waits for the disk, or
      // the WAL writer after 0.2 s, would store the batch.
      {
        file: 'server/store/postgres/settings.ts',
        find: "max_wal_size: '2GB',",
        replace: "max_wal_size: '2GB',\n  synchronous_commit: 'off',\n  wal_writer_delay: '10s',",
      },
      {
        file: 'sql:flush_results',
        find: "set_config('synchronous_commit', 'on', true)",
        replace: "set_config('synchronous_commit', 'off', true)",
      },
    ],
    laws: ['refusals', 'ended', 'once', 'duplicates'],
    kinds: ['postgres-kill', 'all-kill'],
    setup: 'embedded',
  },
  {
    name: 'outage-answered-as-internal-error',
    patches: [
      {
        file: 'server/api/trpc.ts',
        find: 'if (isOutage(error)) {',
        replace: 'if (error === undefined) {',
      },
    ],
    laws: ['refusals'],
    kinds: ['postgres-kill', 'postgres-term'],
    setup: 'own',
  },
  {
    name: 'report-error-unhandled',
    patches: [
      {
        file: 'server/worker/worker-report.ts',
        find: ".catch((error: Error) => this.#log(error, 'report not written'))",
        replace: '.catch((error: Error) => Promise.reject(error))',
      },
    ],
    laws: ['calls', 'log', 'exit'],
    kinds: ['postgres-kill', 'postgres-term'],
    setup: 'own',
  },
  {
    name: 'server-ends-by-the-signal',
    patches: [
      {
        file: 'server/stop-request.ts',
        find: "process.on('SIGTERM', () => stopRequests.request('SIGTERM'))",
        replace: '',
      },
    ],
    laws: ['exit'],
    kinds: ['none'],
  },
]

export function pathOf(file: string, root: string): string {
  if (!file.startsWith('sql:')) return join(root, file)
  return join(root, 'server/store/functions', `${file.slice(4).replaceAll('_', '-')}.sql`)
}

export function patched(text: string, { find, replace, file }: Patch): string {
  const parts = text.split(find)
  if (parts.length !== 2) {
    throw new Error(
      `${file} holds ${parts.length - 1} occurrences of ${JSON.stringify(find)}, not 1`,
    )
  }
  return parts.join(replace)
}
