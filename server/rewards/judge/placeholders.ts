import { turnText } from '../../contract/turn-text.ts'
import type { RewardSample } from '../managers/manager.ts'
import { nearestName } from '../nearest-name.ts'

/** Values for placeholders; `responseA` and `responseB` are the two responses of a pair, in the order shown. */
export interface JudgedTexts extends Pick<RewardSample, 'prompt' | 'groundTruth' | 'extraInfo'> {
  response?: string
  responseA?: string
  responseB?: string
}

/** Matches `{name}` and `{extra.a.b}`; other braces (JSON, LaTeX, sets) are text. */
const PLACEHOLDER = /\{([A-Za-z_]\w*(?:\.[\w-]+)*)\}/g
const DOUBLED = /\{\{\s*([A-Za-z_]\w*(?:\.[\w-]+)*)\s*\}\}/g

const NAMES = {
  single: ['prompt', 'response', 'ground_truth'],
  pair: ['prompt', 'response_a', 'response_b', 'ground_truth'],
}

/** Names that other tools use for the same values. They are refused, because they would not be filled in. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  question: 'prompt',
  instruction: 'prompt',
  problem: 'prompt',
  input: 'prompt',
  answer: 'response',
  completion: 'response',
  output: 'response',
  solution_str: 'response',
  answer_a: 'response_a',
  answer_b: 'response_b',
  reference: 'ground_truth',
  ref_answer: 'ground_truth',
  ref_answer_1: 'ground_truth',
  target: 'ground_truth',
  extra_info: 'extra.<name>',
  extra: 'extra.<name>',
}

/** Shorter unknown names in braces count as formulas: `{x}`, `\frac{a}{b}`. */
const MIN_NAME_CHARS = 4

/** Whether the brace at `index` opens the argument of a LaTeX command, as in `\text{Answer}`. */
function isLatex(content: string, index: number): boolean {
  return /\\[A-Za-z]+$/.test(content.slice(Math.max(0, index - 32), index))
}

/**
 * The errors in a template's placeholders. `at` is the index of the turn; a placeholder missing in all turns is
 * reported for the last turn.
 */
export function checkPlaceholders(template: {
  kind: 'single' | 'pair'
  turns: readonly { content: string }[]
}): { at: number; message: string }[] {
  const { kind, turns } = template
  const known = NAMES[kind]
  const problems: { at: number; message: string }[] = []
  const seen = new Set<string>()
  for (const [at, { content }] of turns.entries()) {
    for (const [whole, name = ''] of content.matchAll(DOUBLED)) {
      if (known.includes(name) || name.startsWith('extra.')) {
        problems.push({ at, message: `${whole}: write one brace on each side, {${name}}` })
      }
    }
    for (const { 0: whole, 1: name = '', index } of content.matchAll(PLACEHOLDER)) {
      seen.add(name)
      if (known.includes(name) || name.startsWith('extra.')) continue
      const other = kind === 'pair' ? NAMES.single : NAMES.pair
      const meant = other.includes(name)
        ? known.find((n) => n.startsWith('response'))
        : (ELSEWHERE[name] ?? nearestName(name, known))
      if (meant !== undefined) {
        problems.push({ at, message: `${whole} is not a placeholder; did you mean {${meant}}?` })
      } else if (name.length >= MIN_NAME_CHARS && !isLatex(content, index)) {
        const text = `{ ${name} }`
        const message = `${whole} is not a placeholder (use ${known.join(', ')} or extra.<name>); as text, write ${text}`
        problems.push({ at, message })
      }
    }
  }
  for (const needed of kind === 'pair' ? ['response_a', 'response_b'] : ['response']) {
    if (seen.has(needed)) continue
    const message = `no turn has {${needed}}: the judge would not see it`
    problems.push({ at: turns.length - 1, message })
  }
  return problems
}

/** Returns the path of a placeholder in the extra info: empty for the other placeholders, null for an unknown name. */
export function valuePath(name: string): string[] | null {
  if (name.startsWith('extra.')) return name.split('.').slice(1)
  return [...NAMES.single, ...NAMES.pair].includes(name) ? [] : null
}

/**
 * Fills in each placeholder of a text once, so braces inside inserted values stay unchanged. If the sample lacks the
 * value of a placeholder, `missing` names the placeholder, and the sample is not judged.
 */
export function fillIn(
  content: string,
  texts: JudgedTexts,
): { ok: true; text: string } | { ok: false; missing: string } {
  let missing: string | null = null
  const text = content.replace(PLACEHOLDER, (whole, name: string) => {
    if (valuePath(name) === null) return whole
    const value = placeholderValue(name, texts)
    if (value === undefined || value === null) missing ??= name
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  })
  return missing === null ? { ok: true, text } : { ok: false, missing }
}

export function placeholderValue(name: string, texts: JudgedTexts): unknown {
  switch (name) {
    case 'prompt':
      return promptText(texts.prompt)
    case 'response':
      return texts.response
    case 'response_a':
      return texts.responseA
    case 'response_b':
      return texts.responseB
    case 'ground_truth':
      return texts.groundTruth
    default: {
      let at: unknown = texts.extraInfo
      for (const key of valuePath(name) ?? []) {
        if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
        at = (at as Record<string, unknown>)[key]
      }
      return at
    }
  }
}

function promptText(prompt: JudgedTexts['prompt']): string {
  if (typeof prompt === 'string') return prompt
  const [only] = prompt
  if (prompt.length === 1 && only?.role === 'user') return turnText(only)
  return prompt.map((turn) => `[${turn.role}]\n${turnText(turn)}`).join('\n\n')
}
