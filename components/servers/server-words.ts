import { ENGINES, type EngineName } from '../../server/contract/engines.ts'
import type { SelfTestVerdict } from '../../server/contract/self-test-verdict.ts'
import type { MonitorKind } from '../../server/contract/server-detail.ts'
import type { ServerDto, ServerState } from '../../server/contract/servers.ts'
import { formatCompact, plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'

/** Returns the official spelling of an engine's name, or the name itself if the engine is unknown. */
export const engineName = (engine: string): string =>
  Object.hasOwn(ENGINES, engine) ? ENGINES[engine as EngineName].label : engine

export const KIND_WORDS: Record<ServerDto['kind'], string> = {
  discriminative: 'Discriminative',
  generative: 'Generative',
}

export const VERDICT_MEANING: Record<SelfTestVerdict, string> = {
  raw: 'Scores are the raw output of the model head and cover the whole text.',
  constant: 'Different texts get the same score, so there is no learning signal.',
  label_unknown:
    'The model has several labels, but the registration does not say which one is the score.',
  squashed: 'The scores went through a sigmoid or softmax, although raw scores were requested.',
  inverted:
    'The server returns squashed scores when raw scores are requested, and raw scores otherwise.',
  truncated: 'Long texts are truncated, so scores do not cover the whole response.',
  differs:
    'The score of a fixed text differs from its earlier score, or from its score on other servers of the pool.',
  unverified: 'It could not be verified that scores are raw.',
  not_applicable: 'The server has no raw scores to check.',
  failed: 'The server returned no score to test.',
}

/** The text that a server scores, by route. */
export const ROUTE_WORDS: Record<NonNullable<ServerDto['route']>, string> = {
  classify: 'whole text',
  token: 'whole text, per token',
  pair: 'prompt and response as a pair',
}

export const MONITOR_WORDS: Record<MonitorKind, { name: string; watches: string }> = {
  degraded: {
    name: 'Degraded',
    watches:
      'The server is ejected, at least 5 % of its requests failed (refused requests do not count), or its median latency is at least 3 times that of its peers.',
  },
  black_hole: {
    name: 'Black hole',
    watches: 'The server gets twice its share of requests, and half of them fail.',
  },
  tie_collapse: {
    name: 'Biased tie-breaking',
    watches:
      'One of at least three servers gets over 60 % of requests, although all have equal capacity, latency, errors and health.',
  },
  sticky_retries: {
    name: 'Sticky retries',
    watches: 'Retries go to the server that failed, although others are ready.',
  },
  masked_client_errors: {
    name: 'Masked refusals',
    watches:
      'Over 5 % of requests are refused: with a 4xx status, or with a withheld or empty reply.',
  },
  drift: {
    name: 'Drift',
    watches:
      'Scores of fixed texts differ from earlier scores, or from those of other servers of the pool.',
  },
  squashed_scores: {
    name: 'Scores not raw',
    watches: 'Scores are not raw, or not verified as raw.',
  },
}

/** Whether a state is an error. Asleep and draining are intended states. */
function isTrouble(state: ServerState): boolean {
  return state === 'unreachable' || state === 'dead' || state === 'quarantined'
}

export function fleetWords(servers: readonly Pick<ServerDto, 'state' | 'health'>[]): {
  text: string
  calm: boolean
} {
  const count = (...of: ServerState[]) => servers.filter(({ state }) => of.includes(state)).length
  const unhealthy = servers
    .filter(({ state }) => state === 'ready')
    .flatMap(({ health }) => badHealth(health)[0]?.[1] ?? [])
  const parts = [
    ...(['ejected', 'suspect', 'half-open', 'slow start'] as const).map(
      (word) => [unhealthy.filter((one) => one === word).length, word] as const,
    ),
    [count('unreachable'), 'unreachable'],
    [count('dead'), 'dead'],
    [count('quarantined'), 'quarantined'],
    [count('draining'), 'draining'],
    [count('sleeping'), 'asleep'],
    [count('waking', 'probing', 'registering'), 'starting'],
  ] as const
  return {
    text: [
      `${count('ready')} of ${servers.length} ready`,
      ...parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`),
    ].join(', '),
    calm: unhealthy.length === 0 && !servers.some(({ state }) => isTrouble(state)),
  }
}

function badHealth({ suspect, ejected, halfOpen, slowStart }: ServerDto['health']) {
  return (
    [
      [ejected, 'ejected'],
      [suspect, 'suspect'],
      [halfOpen, 'half-open'],
      [slowStart, 'slow start'],
    ] as const
  ).filter(([n]) => n > 0)
}

export function healthWords(health: ServerDto['health']): {
  text: string
  detail: string
  tone: 'ok' | 'warn' | 'bad' | 'idle'
} {
  const { ok, suspect, ejected, halfOpen, slowStart } = health
  const all = ok + suspect + ejected + halfOpen + slowStart
  if (all === 0) return { text: '–', detail: 'no process has reported yet', tone: 'idle' }
  const parts = badHealth(health)
  const detail = [...parts, [ok, 'ok'] as const]
    .filter(([n]) => n > 0)
    .map(([n, word]) => `${word} in ${plural(n, 'process', 'processes')}`)
    .join(', ')
  const [worst] = parts
  if (worst === undefined) return { text: 'OK', detail, tone: 'ok' }
  const [n, word] = worst
  return {
    text: capitalized(all === 1 ? word : `${word} ${n}/${all}`),
    detail,
    tone: ejected > 0 ? 'bad' : 'warn',
  }
}

export function imbalanceWords(imbalance: number | null): string {
  if (imbalance === null) return 'No requests'
  // An imbalance below 10 % is noise from small request counts.
  if (imbalance <= 1.1) return 'Even'
  return `${imbalance >= 10 ? Math.round(imbalance) : imbalance.toFixed(1)}×`
}

export function ratesWords({ rpm, tpm }: Pick<ServerDto, 'rpm' | 'tpm'>): string[] {
  return [
    rpm === null ? null : `${formatCompact(rpm)} requests/min`,
    tpm === null ? null : `${formatCompact(tpm)} tokens/min`,
  ].filter((part) => part !== null)
}

// Names that cannot be a URL segment: dots alone are path steps, and these extensions collide with files of Next.
const NOT_IN_A_PATH = /^\.+$|\.(rsc|txt|json|html|xml|ico|png|svg|js|map)$/i

/** The URL of the page of a server. It contains the name, because the ID changes if the server is registered again. */
export function serverHref({ id, name }: Pick<ServerDto, 'id' | 'name'>): string {
  return `/servers/${NOT_IN_A_PATH.test(name) ? `~${id}` : encodeURIComponent(name)}`
}

/** Reads the name or id of a server from a segment of a URL, such as `rm-1` or `~s3`; null if it is invalid. */
export function readServerRef(segment: string): { id: string } | { name: string } | null {
  let text: string
  try {
    text = decodeURIComponent(segment)
  } catch {
    return null
  }
  if (/^~s\d{1,15}$/.test(text)) return { id: text.slice(1) }
  return /^[\w.:-]{1,128}$/.test(text) ? { name: text } : null
}
