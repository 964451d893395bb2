import type { UrlCodec } from '../url/use-url.ts'

const SOURCES = ['typed', 'batch', 'run'] as const
type SourceKind = (typeof SOURCES)[number]

/** The possible distributions of latencies that are entered in the form. */
const SPREADS = ['uniform', 'lognormal', 'constant'] as const
export type Spread = (typeof SPREADS)[number]

/** The planner form, with every field as typed; times in seconds. The URL uses the same names. */
export interface PlannerDraft {
  source: SourceKind
  batch: string
  run: string
  prompts: string
  group: string
  spread: Spread
  /** Minimum (uniform), median (lognormal), or the constant. */
  first: string
  /** Maximum (uniform) or sigma (lognormal). */
  second: string
  /** Percent of requests that fail and are retried. */
  failed: string
  rollout: string
  logprob: string
  update: string
  steps: string
  mini: string
  /**
   * Limits of concurrent rewards per server, such as `256, none`. If empty, the plan compares the recorded limit with
   * no limit.
   */
  limits: string
  servers: string
  /**
   * The selected combination of limit and servers, such as `256x1` or `nonex1`. Empty selects the first combination.
   */
  show: string
}

/**
 * The default settings: the experiment of the async reward agent (verl PR 2854). Its trainer time is 203 s per step;
 * the split into rollout, log-probs and updates is an assumption.
 */
export const ASYNC_AGENT_EXPERIMENT: PlannerDraft = {
  source: 'typed',
  batch: '',
  run: '',
  prompts: '1024',
  group: '5',
  spread: 'uniform',
  first: '1',
  second: '40',
  failed: '0',
  rollout: '40',
  logprob: '43',
  update: '120',
  steps: '7',
  mini: '4',
  limits: '256, none',
  servers: '1',
  show: '',
}

/** The service derives these fields from the record of a batch or run if they are empty. */
const RECORDED = { rollout: '', logprob: '', update: '', limits: '' } as const

function defaultsOf(source: SourceKind): PlannerDraft {
  return source === 'typed'
    ? ASYNC_AGENT_EXPERIMENT
    : { ...ASYNC_AGENT_EXPERIMENT, source, ...RECORDED }
}

/** Selects a source. Fields with a default of the previous source get the default of the new source. */
export function withSource(draft: PlannerDraft, source: SourceKind): PlannerDraft {
  const next = { ...draft, source }
  for (const key of Object.keys(RECORDED) as (keyof typeof RECORDED)[]) {
    if (draft[key] === defaultsOf(draft.source)[key]) next[key] = defaultsOf(source)[key]
  }
  return next
}

const KEYS = Object.keys(ASYNC_AGENT_EXPERIMENT) as (keyof PlannerDraft)[]
/** Fields that apply to one source only. The URLs of other sources omit them. */
const OF_SOURCE: Partial<Record<keyof PlannerDraft, SourceKind>> = {
  batch: 'batch',
  run: 'run',
  prompts: 'typed',
  group: 'typed',
  spread: 'typed',
  first: 'typed',
  second: 'typed',
  failed: 'typed',
}
const MAX_FIELD_CHARS = 256

export const plannerUrl: UrlCodec<PlannerDraft> = {
  parse(params) {
    const draft: PlannerDraft = { ...defaultsOf(sourceIn(params)) }
    for (const key of KEYS) {
      const value = params.get(key)?.slice(0, MAX_FIELD_CHARS)
      if (value === undefined) continue
      if (key === 'source') continue
      if (key === 'spread') {
        draft.spread = SPREADS.find((one) => one === value) ?? draft.spread
      } else draft[key] = value
    }
    return draft
  },
  write(draft) {
    const params = new URLSearchParams()
    for (const key of KEYS) {
      if ((OF_SOURCE[key] ?? draft.source) !== draft.source) continue
      const isImplied = key === 'source' && draft[draft.source === 'run' ? 'run' : 'batch'] !== ''
      if (isImplied && draft.source !== 'typed') continue
      // Without a source in the URL, `typed` is the source. Other defaults depend on the source.
      const usual = defaultsOf(key === 'source' ? 'typed' : draft.source)[key]
      if (draft[key] === usual) continue
      params.set(key, draft[key])
    }
    return params
  },
}

/** The source that a URL names, or that its parameter `batch` or `run` implies. */
function sourceIn(params: URLSearchParams): SourceKind {
  if (params.has('source')) return SOURCES.find((one) => one === params.get('source')) ?? 'typed'
  return params.get('batch') ? 'batch' : params.get('run') ? 'run' : 'typed'
}

export function planBatchHref(batchId: string): string {
  return `/planner?batch=${batchId}`
}

export const PLANNER_EXAMPLES: readonly { name: string; draft: PlannerDraft }[] = [
  { name: 'Async reward agent', draft: ASYNC_AGENT_EXPERIMENT },
  {
    name: 'Judge, long tail',
    draft: {
      ...ASYNC_AGENT_EXPERIMENT,
      prompts: '256',
      group: '8',
      spread: 'lognormal',
      first: '6',
      second: '0.9',
      failed: '2',
      rollout: '90',
      logprob: '30',
      update: '100',
      limits: '32, 128',
      servers: '1, 4',
    },
  },
  {
    name: 'Fast rules',
    draft: {
      ...ASYNC_AGENT_EXPERIMENT,
      prompts: '512',
      group: '8',
      first: '0.001',
      second: '0.02',
      rollout: '60',
      logprob: '20',
      update: '60',
      limits: '256, none',
    },
  },
]
