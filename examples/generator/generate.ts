import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { SampleInput } from '../../server/contract/trainer.ts'
import { type PlantedAnswer, QUESTIONS, respondToQuestion } from './questions.ts'
import { type Draw, drawFrom } from './random.ts'
import { answerOf, type Planted, respond } from './responses.ts'
import { WORD_PROBLEMS } from './word-problems.ts'

export const DEMO_ROLLOUTS = fileURLToPath(new URL('../data/demo-rollouts.jsonl', import.meta.url))

const SEED = 20_261_120
const RESPONSES = 8
const GSM8K_PROMPTS = 52
const DAPO_PROMPTS = 6

/** Invented policies; the second one is correct more often. */
const POLICIES = [
  { name: 'step-0', skill: 0.35 },
  { name: 'step-100', skill: 0.65 },
] as const

type GeneratedSample = SampleInput & { response: string }

/** 64 prompts × 8 responses, deterministic and entirely invented. */
export function generateRollouts(): GeneratedSample[] {
  const draw = drawFrom(SEED)
  const samples: GeneratedSample[] = []
  for (let i = 0; i < GSM8K_PROMPTS; i++) {
    const problem = WORD_PROBLEMS[i % WORD_PROBLEMS.length]!(draw)
    const answer = String(answerOf(problem))
    for (const { policy, planted } of group(draw, plantRight, plantWrong)) {
      const response = respond(draw, problem, planted, '####')
      samples.push(
        sample(
          `arithmetic-${i}`,
          'openai/gsm8k',
          problem.question,
          response,
          answer,
          policy,
          planted,
        ),
      )
    }
  }
  for (let i = 0; i < DAPO_PROMPTS; i++) {
    const problem = WORD_PROBLEMS[(i * 5 + 2) % WORD_PROBLEMS.length]!(draw)
    const answer = String(answerOf(problem))
    const prompt = [
      {
        role: 'system',
        content: 'Work the problem out, then give the result on a last line as "Answer: …".',
      },
      { role: 'user', content: problem.question },
    ]
    for (const { policy, planted } of group(draw, plantRight, plantWrong)) {
      const response = respond(draw, problem, planted, 'Answer:')
      samples.push(sample(`contest-${i}`, 'math_dapo', prompt, response, answer, policy, planted))
    }
  }
  QUESTIONS.forEach((question, i) => {
    for (const { policy, planted } of group(draw, plantRightAnswer, plantWrongAnswer)) {
      const response = respondToQuestion(draw, question, planted)
      const truth = { target: question.targets }
      samples.push(
        sample(`lookup-${i}`, 'searchR1_nq', question.question, response, truth, policy, planted),
      )
    }
  })
  return samples
}

export function rolloutLines(samples: readonly SampleInput[]): string {
  return `${samples.map((s) => JSON.stringify(s)).join('\n')}\n`
}

/**
 * Draws the responses of one group. With a probability of 0.2 all of them are correct, and with 0.2 none is, so that
 * some groups have no signal.
 */
function group<P>(
  draw: Draw,
  plantedRight: (draw: Draw) => P,
  plantedWrong: (draw: Draw) => P,
): { policy: string; planted: P }[] {
  const kind = draw.unit()
  return Array.from({ length: RESPONSES }, (_, i) => {
    const policy = POLICIES[Math.floor((i * POLICIES.length) / RESPONSES)]!
    const right = kind < 0.2 || (kind >= 0.4 && draw.chance(policy.skill))
    return { policy: policy.name, planted: right ? plantedRight(draw) : plantedWrong(draw) }
  })
}

function plantRight(draw: Draw): Planted {
  return draw.chance(0.1) ? 'terse' : 'right'
}

function plantWrong(draw: Draw): Planted {
  return draw.pick<Planted>([
    'slip',
    'slip',
    'slip',
    'misread',
    'misread',
    'no_marker',
    'currency',
    'boxed',
    'truncated',
    'truncated',
    'repetitive',
  ])
}

function plantRightAnswer(draw: Draw): PlantedAnswer {
  return draw.chance(0.25) ? 'article' : 'right'
}

function plantWrongAnswer(draw: Draw): PlantedAnswer {
  return draw.pick<PlantedAnswer>(['wrong', 'wrong', 'wrong', 'no_tag', 'spam'])
}

function sample(
  uid: string,
  dataSource: string,
  prompt: SampleInput['prompt'],
  response: string,
  groundTruth: unknown,
  policy: string,
  planted: string,
): GeneratedSample {
  return {
    uid,
    dataSource,
    prompt,
    response,
    groundTruth,
    extraInfo: { policy, planted, synthetic: true },
    responseLength: response.match(/\w+|[^\s\w]/g)?.length ?? 0,
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lines = rolloutLines(generateRollouts())
  await writeFile(DEMO_ROLLOUTS, lines)
  console.log(`${DEMO_ROLLOUTS}: ${Math.round(Buffer.byteLength(lines) / 1024)} KiB`)
}
