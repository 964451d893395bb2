import type { BalancingPolicyName } from '../../server/wire/pools.ts'
import type { SelfTestVerdict } from '../../server/wire/self-test-verdict.ts'
import type { MonitorKind } from '../../server/wire/server-detail.ts'
import type { ServerDto, ServerState } from '../../server/wire/servers.ts'
import { formatCompact, plural } from '../format/numbers.ts'

/** The words the pages use for what the service says in its own: nothing of a DTO is shown raw. */

/** How each engine writes itself. */
export const ENGINE_WORDS: Record<ServerDto['engine'], string> = {
  vllm: 'vLLM',
  sglang: 'SGLang',
  tei: 'TEI',
  llamacpp: 'llama.cpp',
  openai: 'OpenAI-style',
  openrlhf: 'OpenRLHF',
  http: 'own scorer',
}

/** What a server gives. */
export const KIND_WORDS: Record<ServerDto['kind'], string> = {
  discriminative: 'scores',
  generative: 'judge’s replies',
}

/** What a verdict of the self-test means for training. */
export const VERDICT_MEANING: Record<SelfTestVerdict, string> = {
  raw: 'Its scores come as the model’s head gives them, of whole texts.',
  constant: 'It gives unlike texts the same score: nothing can be learned from that.',
  label_unknown: 'Its model has several labels, and the registration names none as the score.',
  squashed: 'Its scores went through a sigmoid or softmax although raw ones were asked for.',
  inverted: 'Asked for raw scores it gives squashed ones, and the other way round.',
  truncated: 'The end of a long text does not count: what is scored is not the whole answer.',
  differs: 'It scores a fixed text otherwise than before, or than the others of its pool.',
  unverified: 'Its scores lie between 0 and 1, and nothing tells whether they are raw.',
  not_applicable: 'There is no raw score to tell from a squashed one.',
  failed: 'It gave no score to test.',
}

/** How a server is asked for scores. */
export const ROUTE_WORDS: Record<NonNullable<ServerDto['route']>, string> = {
  classify: 'whole texts',
  token: 'whole texts, token by token',
  pair: 'prompt and response apart',
}

/** Each monitor's name, and what it watches for. */
export const MONITOR_WORDS: Record<MonitorKind, { name: string; watches: string }> = {
  degraded: {
    name: 'Degraded',
    watches: 'Ejected, over 5 % of its calls failed, or its p50 is at least 3 times its peers’.',
  },
  black_hole: {
    name: 'Black hole',
    watches: 'It gets twice its share of the calls, and half of them fail.',
  },
  tie_collapse: {
    name: 'Ties fall one way',
    watches:
      'One of at least three servers gets over 60 % of the calls, though all have the same capacity, latency, errors and health.',
  },
  sticky_retries: {
    name: 'Sticky retries',
    watches: 'Retries go back to the server that failed, while others are ready.',
  },
  masked_client_errors: {
    name: 'Masked refusals',
    watches: 'Over 5 % of its calls are refused with a 4xx.',
  },
  drift: { name: 'Drift', watches: 'Its scores differ from what they were, or from its pool’s.' },
  squashed_scores: {
    name: 'Scores not raw',
    watches: 'Its scores are not raw, or could not be shown to be.',
  },
}

/** States in which a server is not what it should be; asleep and draining it does what it was told. */
export function isTrouble(state: ServerState): boolean {
  return state === 'unreachable' || state === 'dead' || state === 'distrusted'
}

/** A fleet in one line: what is ready, and of the rest what is wrong and what only rests. */
export function fleetWords(states: readonly ServerState[]): { text: string; calm: boolean } {
  const count = (...of: ServerState[]) => states.filter((state) => of.includes(state)).length
  const parts = [
    [count('unreachable'), 'unreachable'],
    [count('dead'), 'dead'],
    [count('distrusted'), 'distrusted'],
    [count('draining'), 'draining'],
    [count('sleeping'), 'asleep'],
    [count('waking', 'probing', 'registering'), 'on the way'],
  ] as const
  return {
    text: [
      `${count('ready')} of ${states.length} ready`,
      ...parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`),
    ].join(', '),
    calm: !states.some(isTrouble),
  }
}

/** How the processes see a server: the worst first, in words; quiet where all is well. */
export function healthWords(health: ServerDto['health']): {
  text: string
  detail: string
  tone: 'ok' | 'warn' | 'bad' | 'idle'
} {
  const { ok, suspect, out, halfOpen, slowStart } = health
  const all = ok + suspect + out + halfOpen + slowStart
  if (all === 0) return { text: '–', detail: 'no process reports yet', tone: 'idle' }
  const parts = (
    [
      [out, 'out'],
      [suspect, 'suspect'],
      [halfOpen, 'half open'],
      [slowStart, 'slow start'],
    ] as const
  ).filter(([n]) => n > 0)
  const detail = [...parts, [ok, 'ok'] as const]
    .filter(([n]) => n > 0)
    .map(([n, word]) => `${word} in ${plural(n, 'process', 'processes')}`)
    .join(', ')
  const [worst] = parts
  if (worst === undefined) return { text: 'ok', detail, tone: 'ok' }
  const [n, word] = worst
  return {
    text: all === 1 ? word : `${word} ${n}/${all}`,
    detail,
    tone: out > 0 ? 'bad' : 'warn',
  }
}

/** How far apart calls and capacity are over a pool. */
export function imbalanceWords(imbalance: number | null): string {
  if (imbalance === null) return 'no calls yet'
  // Under a tenth it is the noise of whole calls: 10 minutes of a small pool.
  if (imbalance <= 1.1) return 'even'
  return `${imbalance >= 10 ? Math.round(imbalance) : imbalance.toFixed(1)}×`
}

/** Its limits a minute, `600 calls` and `90k tokens`; empty where there are none. */
export function ratesWords({ rpm, tpm }: Pick<ServerDto, 'rpm' | 'tpm'>): string[] {
  return [
    rpm === null ? null : `${formatCompact(rpm)} calls`,
    tpm === null ? null : `${formatCompact(tpm)} tokens`,
  ].filter((part) => part !== null)
}

// Names an address would not keep: dots alone are steps, and what ends so is asked of Next's own files.
const NOT_IN_A_PATH = /^\.+$|\.(rsc|txt|json|html|xml|ico|png|svg|js|map)$/i

/** The page of a server: by its name, which a removal and a new registration survive. */
export function serverHref({ id, name }: Pick<ServerDto, 'id' | 'name'>): string {
  return `/servers/${NOT_IN_A_PATH.test(name) ? `~${id}` : encodeURIComponent(name)}`
}

/** The server an address names: `rm-1`, `~s3`; null where no server can be called so. */
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

/** How a pool's calls are shared among its servers. */
export const POLICY_WORDS: Record<BalancingPolicyName, string> = {
  least_work: 'Least work',
  least_in_flight: 'Fewest in flight',
  power_of_two: 'Better of two',
  peak_ewma: 'Lowest latency',
  round_robin: 'In turn',
  weighted_random: 'By lot, by weight',
  group_affinity: 'A group on one server',
  deterministic: 'Repeatable',
}
