import type { UrlCodec } from '../url/use-url.ts'

/** The views of the Rewards page. */
export const REWARD_VIEWS = ['registered', 'try', 'components', 'import'] as const
export type RewardView = (typeof REWARD_VIEWS)[number]

/** What of the Rewards page can be linked to. */
export interface RewardsUrl {
  view: RewardView
  /** An entry of the registry that is open, as `rule:gsm8k`. */
  open: string | null
  /** Part of a name by which the registry is narrowed. */
  named: string
  /** A stored sample the playground begins with. */
  sample: string | null
  /** A reward the playground begins with, as JSON. */
  reward: string | null
  /** Whose components are shown. */
  run: string | null
}

export const rewardsUrl: UrlCodec<RewardsUrl> = {
  parse(params) {
    const view = params.get('view')
    return {
      view: REWARD_VIEWS.find((one) => one === view) ?? 'registered',
      open: params.get('open'),
      named: params.get('named') ?? '',
      sample: params.get('sample'),
      reward: params.get('reward'),
      run: params.get('run'),
    }
  },
  write({ view, open, named, sample, reward, run }) {
    const params = new URLSearchParams()
    if (view !== 'registered') params.set('view', view)
    if (view === 'registered' && open !== null) params.set('open', open)
    if (view === 'registered' && named !== '') params.set('named', named)
    if (view === 'try' && sample !== null) params.set('sample', sample)
    if (view === 'try' && reward !== null) params.set('reward', reward)
    if (view === 'components' && run !== null) params.set('run', run)
    return params
  },
}

/** The playground with this reward, and with a stored sample where one is named. */
export function tryHref(reward: object, sample: string | null = null): string {
  const json = JSON.stringify(reward)
  const query = rewardsUrl.write({
    view: 'try',
    open: null,
    named: '',
    sample,
    reward: json === '{}' ? null : json,
    run: null,
  })
  return `/rewards?${query}`
}
