import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ResultsColumns } from '../../server/contract/trainer.ts'
import type { Sample, Submit } from '../service/rollouts.ts'
import type { Service } from '../service/service.ts'
import type { ReferenceRequest } from './reference.ts'

const ROLLOUTS = join(import.meta.dirname, '../../examples/data/demo-rollouts.jsonl')

/** Texts that tokenizers of different releases split differently: digits, code, blank lines, other scripts. */
const AWKWARD = [
  '12345678901234567890 + 0.000314159 = 1e20',
  'def f(x):\n    return x ** 2  # squared\n\n\nprint(f(12))',
  'Größe: 3½ m² — naïve façade, 東京は日本の首都です。🙂',
  'a\tb\r\nc   d',
  '\\frac{1}{2} \\times 42 = \\boxed{21}',
]

interface Rollout {
  prompt: string
  response: string
}

/** Maximum number of characters of prompt and response together, so that they fit the context of the tiny models. */
const MAX_CHARS = 700

export function samplesOf(count: number, label: string): Sample[] {
  const rollouts = readFileSync(ROLLOUTS, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Rollout)
    .filter(
      ({ prompt, response }) =>
        typeof prompt === 'string' && prompt.length + response.length < MAX_CHARS,
    )
  return Array.from({ length: count }, (_, i) => {
    const { prompt, response } = rollouts[i % rollouts.length] as Rollout
    const awkward = i % 10 === 3 ? `\n${AWKWARD[((i / 10) % AWKWARD.length) | 0]}` : ''
    return {
      uid: `${label}-${i >> 2}`,
      dataSource: 'engines',
      prompt: i % 7 === 5 ? conversation(prompt) : prompt,
      // Responses are unique, because samples with identical texts share one request.
      response: `${response}${awkward}\n(${label} ${i})`,
    }
  })
}

function conversation(prompt: string) {
  return [
    { role: 'system', content: 'You do sums.' },
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: 'Hello!' },
    { role: 'user', content: prompt },
  ]
}

export function messagesOf({ prompt, response }: Sample): { role: string; content: string }[] {
  const turns =
    typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : (prompt as never[])
  return [...turns, { role: 'assistant', content: response }]
}

export function promptOf({ prompt }: Sample): string {
  return typeof prompt === 'string' ? prompt : prompt.map(({ content }) => content ?? '').join('\n')
}

/** The form in which the service sends a sample; see {@link ReferenceRequest}. */
export type WrittenAs = 'messages' | 'text' | 'pair' | 'llamacpp'

export function referenceOf(sample: Sample, as: WrittenAs): ReferenceRequest {
  const query = promptOf(sample)
  switch (as) {
    case 'messages':
      return { messages: messagesOf(sample) }
    case 'text':
      return { text: `${query}\n${sample.response}` }
    case 'pair':
      return { pair: [query, sample.response] }
    case 'llamacpp':
      return { llamacpp: [query, sample.response] }
  }
}

/** Maximum wait for a batch. A batch with an engine restart takes minutes. */
const BATCH_MS = 45 * 60_000

export async function submit(
  service: Service,
  model: string,
  samples: Sample[],
  reward: Submit['reward'] = {},
): Promise<string> {
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'engines',
    step: 1,
    samples,
    reward: { model, timeoutMs: 3_600_000, ...reward },
  })
  return batchId
}

export async function ended(service: Service, batchId: string) {
  const until = Date.now() + BATCH_MS
  for (;;) {
    const summary = await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
    if (summary.status !== 'running') {
      const results = await service.api.batches.results.query({ batchId })
      return { summary, results }
    }
    if (Date.now() > until) {
      throw new Error(`the batch still runs: ${summary.scored} scored, ${summary.failed} failed`)
    }
  }
}

export function reasonsOf({ reason }: ResultsColumns): string {
  const counts = new Map<string, number>()
  for (const word of reason) if (word !== null) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...counts].map(([word, count]) => `${count} ${word}`).join(', ')
}
