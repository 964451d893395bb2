import type { Profiler } from 'node:inspector'
import type { StatementCpu } from './account-statements.ts'

/** Stages of CPU time. The stages before `upkeep` are in the order in which a sample passes them. */
export const STAGES = [
  'http',
  'parse',
  'encode',
  'accept',
  'copy',
  'commit',
  'claim',
  'read',
  'route',
  'build',
  'call',
  'parse answer',
  'score',
  'flush',
  'deliver',
  'upkeep',
  'database client',
  'garbage collection',
  'native code',
  'other',
] as const
export type Stage = (typeof STAGES)[number]

/** The part of the service that a thread belongs to. The same file may count as different stages in different parts. */
export type ThreadKind = 'server' | 'ingest' | 'workers'

interface FileRule {
  stage: Stage
  file: RegExp
  functions?: RegExp
  in?: ThreadKind
}

/** The first rule that matches a frame's file, function and thread determines the frame's stage. */
export const FILES: readonly FileRule[] = [
  { stage: 'parse', file: /^server\/batches\/accept\/(body-splitter|ingest-client|ingest)\.ts$/ },
  { stage: 'parse', file: /^server\/(http\/(body|content-encoding)|contract\/trainer)\.ts$/ },
  {
    stage: 'encode',
    file: /^server\/batches\/accept\/batch-draft\.ts$|^server\/store\/copy-binary\.ts$/,
  },
  { stage: 'read', file: /^server\/store\/stored-texts\.ts$/, in: 'workers' },
  { stage: 'encode', file: /^server\/store\/stored-texts\.ts$/ },
  { stage: 'copy', file: /^server\/(store\/copy-in|batches\/accept\/early-texts)\.ts$/ },
  { stage: 'accept', file: /^server\/(batches\/accept\/|rewards\/(resolve|config\/))/ },
  { stage: 'claim', file: /^server\/worker\/(intake|job-keeper|claimed-job)\.ts$/ },
  { stage: 'claim', file: /^server\/store\/job-queue\.ts$/, in: 'workers' },
  { stage: 'accept', file: /^server\/store\/job-queue\.ts$/ },
  {
    stage: 'read',
    file: /^server\/(worker\/(chunk-reader|active-batches)|store\/sql\/worker-reads)\.ts$/,
  },
  {
    stage: 'call',
    file: /^server\/router\/(transport|guarded-fetch)\.ts$|^server\/engines\/engine-fetch\.ts$/,
  },
  { stage: 'parse answer', file: /^server\/engines\//, functions: /^(parse|read|datum|field)/ },
  { stage: 'build', file: /^server\/(engines\/|router\/chat-)/ },
  { stage: 'route', file: /^server\/router\// },
  {
    stage: 'flush',
    file: /^server\/(worker\/(result-writer|sample-end|post-processing)|store\/(sql\/flush|array-literal))\.ts$/,
  },
  {
    stage: 'deliver',
    file: /^server\/(batches\/(batch-reader|cursor|signals|group-reports)|queries\/live-hub|rewards\/(advantages|group-report)|store\/sql\/results)\.ts$/,
  },
  { stage: 'score', file: /^server\/(rewards\/|worker\/reward-loop-worker\.ts)/ },
  { stage: 'http', file: /^server\/(http|api)\// },
  {
    stage: 'database client',
    file: /^server\/store\/(database|session|listener|prisma|clock)\.ts$/,
  },
  {
    stage: 'upkeep',
    file: /^server\/(admin|background|batches|cluster|model-servers|monitoring|planner|queries|service|store|worker)\/|^server\/[^/]+\.ts$/,
  },
]

/** Stages by package, for call stacks with no project file, such as reading an answer from a socket. */
const PACKAGES: readonly [Stage, RegExp][] = [
  ['call', /^undici$/],
  ['copy', /^pg-copy-streams$/],
  ['claim', /^pg-boss$/],
  ['parse', /^zod$/],
  ['http', /^@trpc\//],
  ['database client', /^(pg|pg-[a-z]+|pgpass|postgres-[a-z]+|@prisma\/.*)$/],
]

/** Files that are busy only because of profiling: the profiler, and the code that writes Postgres's statement log. */
const PROFILING = /^(bench\/|server\/store\/postgres\/)/

/** The CPU time of a profile by stage, µs. `files` splits the time in `other` and `upkeep` by file. */
export interface ProfiledStages {
  us: Partial<Record<Stage, number>>
  files: Map<string, number>
}

/**
 * Assigns each sample of a profile to the stage of the nearest project file on its stack, or of the nearest package
 * if the stack has no project file. Idle time and the cost of profiling are excluded.
 */
export function stagesOfProfile(
  profile: Profiler.Profile,
  kind: ThreadKind,
  root: string,
): ProfiledStages {
  const parents = new Map<number, Profiler.ProfileNode>()
  const nodes = new Map<number, Profiler.ProfileNode>()
  for (const node of profile.nodes) {
    nodes.set(node.id, node)
    for (const child of node.children ?? []) parents.set(child, node)
  }
  const stages = new Map<number, { stage: Stage | null; file: string }>()
  const result: ProfiledStages = { us: {}, files: new Map() }
  for (const [at, id] of (profile.samples ?? []).entries()) {
    const us = profile.timeDeltas?.[at] ?? 0
    const node = nodes.get(id)
    if (node === undefined || us <= 0) continue
    let found = stages.get(id)
    if (found === undefined) {
      found = stageOfStack(node, parents, kind, root)
      stages.set(id, found)
    }
    const { stage, file } = found
    if (stage === null) continue
    result.us[stage] = (result.us[stage] ?? 0) + us
    if (stage === 'other' || stage === 'upkeep') {
      result.files.set(file, (result.files.get(file) ?? 0) + us)
    }
  }
  return result
}

function stageOfStack(
  leaf: Profiler.ProfileNode,
  parents: ReadonlyMap<number, Profiler.ProfileNode>,
  kind: ThreadKind,
  root: string,
): { stage: Stage | null; file: string } {
  const name = leaf.callFrame.functionName
  if (name === '(idle)') return { stage: null, file: name }
  if (name === '(garbage collector)') return { stage: 'garbage collection', file: name }
  if (name === '(program)' || name === '(root)') return { stage: 'native code', file: name }
  let ofPackage: Stage | null = null
  let file = ''
  for (let node: Profiler.ProfileNode | undefined = leaf; node; node = parents.get(node.id)) {
    const { url, functionName } = node.callFrame
    const inPackage = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1]
    if (inPackage !== undefined) {
      ofPackage ??= PACKAGES.find(([, pattern]) => pattern.test(inPackage))?.[0] ?? null
      file ||= inPackage
      continue
    }
    if (!url.startsWith(root)) {
      file ||= url
      continue
    }
    const own = url.slice(root.length)
    if (PROFILING.test(own)) return { stage: null, file: own }
    return { stage: stageOfFile(own, functionName, kind), file: own }
  }
  return { stage: ofPackage ?? 'other', file: file || name }
}

export function stageOfFile(file: string, functionName: string, kind: ThreadKind): Stage {
  const rule = FILES.find(
    (r) =>
      r.file.test(file) &&
      (r.functions?.test(functionName) ?? true) &&
      (r.in === undefined || r.in === kind),
  )
  return rule?.stage ?? 'other'
}

/** The first pattern that a statement matches determines its stage. */
const STATEMENTS: readonly [Stage, RegExp][] = [
  ['copy', /^copy /],
  ['commit', /^(begin|commit|rollback)$/],
  ['flush', /flush_results|^insert into attempt/],
  // These statements fetch jobs, record their claims and complete them.
  [
    'claim',
    /^with next as \( select j\.id from pgboss|^with results as \( update pgboss|\b(insert into|delete from) claim\b/,
  ],
  [
    'read',
    /from sample_text\b|^select idx, data_source, group_no|^select .* from batch where id = any/,
  ],
  [
    'deliver',
    /^select idx, group_no, status|^select no, uid, seq|sum\(received\)|^select batch\.id, run_id/,
  ],
  [
    'accept',
    /^insert into (pgboss\.job|sample_group|batch|run|function)|nextval|pg_advisory_xact_lock\(\$/,
  ],
  [
    'upkeep',
    /pgboss|lease|^update (batch|worker|sample_group)|\b(server|worker|batch|monitor|alert_delivery|rollup|setting|api_key)s?\b/,
  ],
]

export function stageOfStatement(statement: string): Stage {
  const text = statement.replace(/\s+/g, ' ').replace(/;$/, '').trim().toLowerCase()
  return STATEMENTS.find(([, pattern]) => pattern.test(text))?.[0] ?? 'other'
}

/**
 * Sums the CPU time of statements by stage, µs. `statements` splits the time in `other` and `upkeep` by the first 80
 * characters of each statement.
 */
export function stagesOfStatements(found: readonly StatementCpu[]): {
  us: Partial<Record<Stage, number>>
  statements: Map<string, number>
} {
  const us: Partial<Record<Stage, number>> = {}
  const statements = new Map<string, number>()
  for (const { statement, cpuUs } of found) {
    const stage = stageOfStatement(statement)
    us[stage] = (us[stage] ?? 0) + cpuUs
    if (stage === 'other' || stage === 'upkeep') {
      const start = statement.slice(0, 80)
      statements.set(start, (statements.get(start) ?? 0) + cpuUs)
    }
  }
  return { us, statements }
}
