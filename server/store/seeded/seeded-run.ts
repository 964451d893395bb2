import type { ResolvedReward } from '../../contract/resolved-reward.ts'

export interface SeededRun {
  name: string
  reward: ResolvedReward
  rewardName: string
  /** Names and shares; the shares add up to 1. */
  dataSources: readonly (readonly [name: string, share: number])[]
  groupSize: number
  /** Time between two steps, s. */
  stepSeconds: number
  /**
   * SQL of a score, from `skill` (rises with the steps), `ease` of the prompt and `luck` of the sample (both standard
   * normal), `u` (uniform), `unmarked` (true for a response without an answer marker) and `drift` (rises late in the
   * run).
   */
  score: string
  /** SQL of the verdict, from `score` and its inputs. Null if samples have no verdict. */
  verdict: string | null
  /** SQL: whether the final answer of a response is correct, from `score` and `verdict`. */
  isCorrect: string
  /** A rule extracts the final answer; the verdict `no answer` means that there is none. */
  extracts?: true
  /**
   * SQL of the extra info, from `score`, its inputs, and the answer that a rule `extracted`. Null if samples have no
   * extra info.
   */
  extra: string | null
  /** SQL of the rewards of a response's messages and spans, from `score`. Absent if they have no rewards. */
  rewards?: string
  /** Responses are trajectories with a tool call, whose result has an image. */
  isAgent?: true
  /** A process reward model scores the tokens of some responses of the last step. */
  byTokens?: true
  /** Reasons of failures, with their shares of all samples. */
  failures: readonly (readonly [reason: string, share: number])[]
  /** Median score time, ms, and the standard deviation of its logarithm. */
  scoreMs: { median: number; spread: number }
  /** Mean response length in tokens, at the first and the last step. */
  tokens: { from: number; to: number }
  /** Whether the policy forgets some prompts late in the run. */
  forgets?: true
  /** Whether reward-model servers score the samples. */
  byServers: boolean
}

const COMMON = {
  manager: 'naive',
  model: null,
  kwargs: {},
  timeoutMs: 300_000,
  maxAttempts: 4,
  maxConcurrency: null,
  onFailure: { policy: 'null' },
} satisfies Partial<ResolvedReward>
const RULE = { ...COMMON, kind: 'rule' } satisfies ResolvedReward
const MODEL = { ...COMMON, kind: 'model', model: 'seeded-rm' } satisfies ResolvedReward

/** SQL of a score of 0 or 1, which is 1 more often as the policy learns. */
const RIGHT = '(not unmarked and u < 1 / (1 + exp(-(skill * 1.6 + ease * 1.9))))::int::float8'
const VERDICT =
  "case when unmarked then 'no answer' when score >= 1 then 'equal' else 'different' end"
const EXTRACTED = { isCorrect: "verdict = 'equal'", extracts: true } satisfies Partial<SeededRun>
/** SQL for the score of the component `style`. The score drifts late in the run. */
const STYLE = 'round((skill * 0.3 + luck * 0.8 + drift)::numeric, 4)::float8'

/**
 * Six kinds of runs: a rule with verdicts, a reward model, a composite reward of both, a judge's grades, code tests, an
 * agent. Their shapes follow published curves: reward that rises and flattens, more variance between prompts than
 * between samples, latencies with a long tail.
 */
export const SEEDED_RUNS: readonly SeededRun[] = [
  {
    name: 'seeded-math-rule',
    reward: RULE,
    rewardName: 'gsm8k + math_reward + math_dapo',
    dataSources: [
      ['openai/gsm8k', 0.5],
      ['DigitalLearningGmbH/MATH-lighteval', 0.3],
      ['math_dapo', 0.2],
    ],
    groupSize: 8,
    stepSeconds: 210,
    score: RIGHT,
    verdict: VERDICT,
    ...EXTRACTED,
    extra: `json_build_object('acc', score, 'pred', coalesce(extracted, '[INVALID]'))`,
    failures: [['function_error', 0.0004]],
    scoreMs: { median: 0.2, spread: 0.5 },
    tokens: { from: 260, to: 780 },
    forgets: true,
    byServers: false,
  },
  {
    name: 'seeded-reward-model',
    reward: { ...MODEL, tokenScores: true },
    rewardName: 'model seeded-rm',
    dataSources: [
      ['helpsteer', 0.6],
      ['ultrafeedback', 0.4],
    ],
    groupSize: 8,
    stepSeconds: 260,
    verdict: null,
    isCorrect: 'score >= 0',
    score: 'round((-1.2 + skill * 0.9 + ease * 0.8 + luck * 0.7)::numeric, 4)::float8',
    extra: null,
    byTokens: true,
    failures: [
      ['timeout', 0.002],
      ['context_exceeded', 0.001],
    ],
    scoreMs: { median: 180, spread: 0.8 },
    tokens: { from: 420, to: 610 },
    byServers: true,
  },
  {
    name: 'seeded-rule-and-model',
    reward: {
      ...COMMON,
      kind: 'combine',
      components: [
        { name: 'verdict', weight: 1, reward: RULE },
        { name: 'style', weight: 0.25, reward: MODEL },
      ],
    },
    rewardName: 'verdict + 0.25 style',
    dataSources: [['openai/gsm8k', 1]],
    groupSize: 8,
    stepSeconds: 240,
    score: `${RIGHT} + 0.25 * ${STYLE}`,
    verdict: `case when unmarked then 'no answer' when ${RIGHT} = 1 then 'equal' else 'different' end`,
    ...EXTRACTED,
    extra: `json_build_object('verdict', ${RIGHT}, 'style', ${STYLE})`,
    failures: [['no_server', 0.001]],
    scoreMs: { median: 150, spread: 0.7 },
    tokens: { from: 300, to: 900 },
    byServers: true,
  },
  {
    name: 'seeded-judge',
    reward: { ...MODEL, model: 'seeded-judge' },
    rewardName: 'judge seeded-judge',
    dataSources: [
      ['mt_bench', 0.7],
      ['arena_hard', 0.3],
    ],
    groupSize: 8,
    stepSeconds: 420,
    verdict: null,
    isCorrect: 'score >= 6',
    score:
      'greatest(1, least(10, round((4.5 + skill * 1.4 + ease * 1.1 + luck * 1.2)::numeric)))::float8',
    extra: `json_build_object('rating', score, 'votes', 3)`,
    failures: [
      ['unparseable', 0.006],
      ['timeout', 0.003],
    ],
    scoreMs: { median: 2_400, spread: 0.6 },
    tokens: { from: 350, to: 520 },
    byServers: true,
  },
  {
    name: 'seeded-code-tests',
    reward: { ...RULE, kind: 'service' },
    rewardName: 'rule code',
    dataSources: [
      ['codecontests', 0.5],
      ['apps', 0.3],
      ['taco', 0.2],
    ],
    groupSize: 8,
    stepSeconds: 380,
    verdict:
      "case when score = 1 then 'all passed' when score > 0 then 'some passed' else 'none passed' end",
    isCorrect: 'score = 1',
    score:
      'case when u < 0.35 / (1 + exp(-(skill + ease * 2))) + 0.1 then 1 else least(7, floor(8 * power(u, 1.6)))::float8 / 8 end',
    extra: `json_build_object('passed', (score * 8)::int, 'tests', 8)`,
    failures: [
      ['timeout', 0.004],
      ['function_error', 0.002],
    ],
    scoreMs: { median: 900, spread: 1 },
    tokens: { from: 700, to: 1_500 },
    byServers: false,
  },
  {
    name: 'seeded-agent',
    reward: RULE,
    rewardName: 'gsm8k',
    dataSources: [['calculator', 1]],
    groupSize: 8,
    stepSeconds: 300,
    score: RIGHT,
    verdict: VERDICT,
    ...EXTRACTED,
    extra: `json_build_object('acc', score)`,
    rewards: `json_build_object('turns', json_build_array(json_build_object('message', 0, 'score', 0.25),
      json_build_object('message', 2, 'score', score)), 'spans', json_build_array(
      json_build_object('message', 2, 'start', 0, 'end', 4, 'score', score - 0.5)))`,
    isAgent: true,
    failures: [['timeout', 0.002]],
    scoreMs: { median: 40, spread: 0.8 },
    tokens: { from: 180, to: 420 },
    byServers: false,
  },
]
