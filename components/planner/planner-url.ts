import type { UrlCodec } from '../url/use-url.ts'

/** Where the rewards' times come from. */
export const SOURCES = ['typed', 'batch', 'run'] as const
export type SourceKind = (typeof SOURCES)[number]

/** How typed rewards are spread. */
export const SPREADS = ['uniform', 'lognormal', 'constant'] as const
export type Spread = (typeof SPREADS)[number]

/** The planner's form as it stands, every field as typed; times in seconds. The URL holds the same. */
export interface PlannerDraft {
  source: SourceKind
  batch: string
  run: string
  prompts: string
  group: string
  spread: Spread
  /** From (uniform), median (lognormal), or the time itself. */
  first: string
  /** To (uniform) or sigma (lognormal). */
  second: string
  /** Of calls, per cent. */
  failed: string
  rollout: string
  logprob: string
  update: string
  steps: string
  mini: string
  /** Rewards at once on a server, with commas; `none`: no limit. */
  limits: string
  servers: string
  /** The drawn combination, as `256x1` or `nonex1`; empty: the first. */
  show: string
}

/** The async reward agent's experiment: what a bare address shows. How its 203 s split into phases is ours. */
export const THEIR_EXPERIMENT: PlannerDraft = {
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

const KEYS = Object.keys(THEIR_EXPERIMENT) as (keyof PlannerDraft)[]
/** What only one source has: it is left out of another's address. */
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
const LONGEST = 256

export const plannerUrl: UrlCodec<PlannerDraft> = {
  parse(params) {
    const draft: PlannerDraft = { ...THEIR_EXPERIMENT }
    for (const key of KEYS) {
      const value = params.get(key)?.slice(0, LONGEST)
      if (value === undefined) continue
      if (key === 'source') {
        draft.source = SOURCES.find((one) => one === value) ?? draft.source
      } else if (key === 'spread') {
        draft.spread = SPREADS.find((one) => one === value) ?? draft.spread
      } else draft[key] = value
    }
    // A link to a batch need not say that it is one.
    if (!params.has('source')) {
      if (draft.batch !== '') draft.source = 'batch'
      else if (draft.run !== '') draft.source = 'run'
    }
    return draft
  },
  write(draft) {
    const params = new URLSearchParams()
    for (const key of KEYS) {
      if ((OF_SOURCE[key] ?? draft.source) !== draft.source) continue
      const isTold = key === 'source' && draft[draft.source === 'run' ? 'run' : 'batch'] !== ''
      if (draft[key] === THEIR_EXPERIMENT[key] || (isTold && draft.source !== 'typed')) continue
      params.set(key, draft[key])
    }
    return params
  },
}

/** The planner with a batch's recorded latencies. */
export function planBatchHref(batchId: string): string {
  return `/planner?batch=${batchId}`
}
