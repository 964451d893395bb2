import type { UrlCodec } from '../url/use-url.ts'

const REWARD_VIEWS = ['registered', 'try', 'components', 'import'] as const
export type RewardView = (typeof REWARD_VIEWS)[number]

interface RewardsUrl {
  view: RewardView
  /** The expanded registry entry, such as `rule:gsm8k`. */
  open: string | null
  named: string
  sample: string | null
  /** A reward for the playground, as JSON. */
  reward: string | null
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
