import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { JudgeParser } from './parser-spec.ts'
import { readReply } from './read-reply.ts'

type Input = Parameters<typeof JudgeParser.parse>[0]

function read(content: string, parser: Input) {
  return readReply({ content, logprobs: null }, JudgeParser.parse(parser))
}

function said(content: string, parser: Input): number | string {
  const verdict = read(content, parser)
  return verdict.ok ? verdict.value : verdict.problem
}

const scale = { min: 1, max: 10 }

describe('[[n]]', () => {
  const parser = { kind: 'bracketed', ...scale }
  test.each([
    ['Good work. Rating: [[8]]', 8],
    ['[[9.5]]', 9.5],
    ['[[ 7 ]]', 7],
    ['[[10.]]', 10],
    ['[[8/10]]', 8],
    ['First [[8]], and to repeat it: [[8.0]]', 8],
    ['As "[[rating]]" asks for: [[5]]', 5],
    ['[[8]] … no, [[6]]', 'two verdicts: [[8]] and [[6]]'],
    ['[[0]]', '0 is outside 1 to 10'],
    ['[[11]]', '11 is outside 1 to 10'],
    ['[[1-10]] as asked for: [[4]]', '[[1-10]] is not a number'],
    ['[[8/5]]', '"8/5": the scale ends at 10, not at 5'],
    ['Rating: [8]', 'no verdict in the reply'],
    ['[[A]]', 'no verdict in the reply'],
    ['', 'no verdict in the reply'],
    ['<think>[[3]]? No.</think>[[7]]', 7],
    ['… so [[3]]</think>\n[[7]]', 7],
    ['<think>perhaps [[3]]', 'the reply ends while it is still thinking'],
  ])('%j: %s', (content, wanted) => {
    expect(said(content, parser)).toBe(wanted)
  })

  test('a 0 is a score only when the judge says 0', () => {
    expect(said('[[0]]', { kind: 'bracketed' })).toBe(0)
    expect(Object.is(said('[[-0]]', { kind: 'bracketed' }), 0)).toBe(true)
    expect(said('[[-1]]', { kind: 'bracketed' })).toBe(-1)
  })
})

describe('a number', () => {
  const parser = { kind: 'number', ...scale }
  test.each([
    ['It lacks 2 of 3 parts.\n\n7', 7],
    ['Reasons …\nScore: 7', 7],
    ['**Score: 7/10**', 7],
    ['7 out of 10\n\n', 7],
    ['GPT-4 would say 9 here', 9],
    ['I give it 7, the 10th best', 7],
    ['7-8', 'two verdicts: 7 and 8'],
    ['7 or 8', 'two verdicts: 7 and 8'],
    ['7,5', '"7,5" is not a number'],
    ['1.5.2', '"1.5.2" is not a number'],
    ['score: -5', '-5 is outside 1 to 10'],
    ['score: \u22125', '\u22125 is outside 1 to 10'],
    ['70%', '"70%": a percentage needs a scale that ends at 100'],
    ['1e1', 'no verdict in the reply'],
    ['7\nThank you!', 'no verdict in the reply'],
    ['seven', 'no verdict in the reply'],
  ])('%j: %s', (content, wanted) => {
    expect(said(content, parser)).toBe(wanted)
  })

  test('is read alone, anywhere, or after a label', () => {
    expect(said(' 7. ', { ...parser, where: 'whole' })).toBe(7)
    expect(said('7 points', { ...parser, where: 'whole' })).toMatch(/not a single number/)
    expect(said('7\nThank you!', { ...parser, where: 'anywhere' })).toBe(7)
    const behind = { ...parser, where: 'anywhere', label: 'Score' }
    expect(said('3 errors. **Score:** 7, of 10 possible', behind)).toBe(7)
    expect(said('Score: 7\nFinal score = 8', behind)).toBe('two verdicts: 7 and 8')
    expect(said('Scores: 7', behind)).toBe('no verdict in the reply')
    expect(said('Score (1-10): see below', behind)).toBe('no verdict in the reply')
  })

  test('may have thousands separators, a percent sign or a minus', () => {
    expect(said('1,000', { kind: 'number' })).toBe(1000)
    expect(said('85 %', { kind: 'number', min: 0, max: 100 })).toBe(85)
    expect(said('-.5', { kind: 'number' })).toBe(-0.5)
    expect(said('8/10', { kind: 'number' })).toMatch(/no max is set/)
    expect(said(`1${'0'.repeat(400)}`, { kind: 'number' })).toMatch(/not finite/)
  })
})

describe('\\boxed', () => {
  const labels = { True: 1, False: 0 }
  test.each([
    ['So \\boxed{True}', 1],
    ['\\boxed{\\text{false}}.', 0],
    ['\\boxed{$0.5$}', 0.5],
    ['\\boxed{True} … \\boxed{False}', 'two verdicts: \\boxed{True} and \\boxed{False}'],
    ['\\boxed{x+y}', 'no verdict in the reply'],
    ['\\boxed{True', 'no verdict in the reply'],
    ['\\boxed{\\frac{1}{2}}', '\\boxed{\\frac{1}{2}} is not a number'],
  ])('%j: %s', (content, wanted) => {
    expect(said(content, { kind: 'boxed', labels })).toBe(wanted)
  })
})

describe('JSON', () => {
  const schema = {
    type: 'object',
    properties: { score: { type: 'integer' }, why: { type: 'string' } },
    required: ['score'],
  }
  const parser = { kind: 'json', min: 0, max: 10, schema }
  test.each([
    ['{"why":"clear","score":8}', 8],
    ['Here it is:\n```json\n{"score": 8}\n```\nThanks', 8],
    ['My verdict: {"score": 8, "why": "a } brace"} done', 8],
    ['{"score": 8} and {"score": 8.0}', 8],
    ['{"score": 8} or {"score": 6}', 'two verdicts: 8 and 6'],
    ['{"score":1,"score":9}', 'two verdicts: the JSON has a key twice'],
    ['{"score":1,"sc\\u006fre":9}', 'two verdicts: the JSON has a key twice'],
    ['{"score": 8.5}', /does not fit the schema: score/],
    ['{"score": 11}', '11 is outside 0 to 10'],
    ['{"score": null}', /does not fit/],
    ['{"grade": 8}', 'the JSON has no "score"'],
    ['{"__proto__": {"score": 8}}', 'the JSON has no "score"'],
    ['{"score": 8', 'no JSON object in the reply'],
    ['8', 'no JSON object in the reply'],
  ])('%j: %s', (content, wanted) => {
    const got = said(content, parser)
    if (wanted instanceof RegExp) expect(got).toMatch(wanted)
    else expect(got).toBe(wanted)
  })

  test('is read unless it is nested too deep', () => {
    const nested = (levels: number) =>
      `{"score":1,"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
    expect(said(nested(100), { kind: 'json' })).toBe(1)
    expect(said(nested(101), { kind: 'json' })).toMatch(/nested more than 100 levels/)
  })

  test('is read at a path, by labels, and with numbers as text', () => {
    expect(said('{"a":{"b":[{"c":3}]}}', { kind: 'json', path: 'a.b.0.c' })).toBe(3)
    expect(said('{"ok":true}', { kind: 'json', path: 'ok', labels: { true: 1, false: 0 } })).toBe(1)
    expect(said('{"ok":true}', { kind: 'json', path: 'ok' })).toBe('true is not a score')
    expect(said('{"score":"7"}', { kind: 'json' })).toBe(7)
    expect(said('{"score":1e999}', { kind: 'json' })).toMatch(/not finite|not a score/)
    expect(Object.is(said('{"score":-0}', { kind: 'json' }), 0)).toBe(true)
  })
})

describe('[[A]], [[B]], [[C]]', () => {
  test.each([
    ['So [[A]]', 1],
    ['[[b]]', 0],
    ['[[ C ]] [[C]]', 0.5],
    ['[[A]] not [[B]]', 'two verdicts: [[A]] and [[B]]'],
    ['Answer A', 'no verdict in the reply'],
    ['[[AB]]', 'no verdict in the reply'],
  ])('%j: %s', (content, wanted) => {
    expect(said(content, { kind: 'verdict' })).toBe(wanted)
  })

  test('two sides are two verdicts even if their scores are equal', () => {
    expect(said('[[B]] or [[C]]', { kind: 'verdict', tie: 0 })).toMatch(/two verdicts/)
  })
})

describe('yes and no by their probabilities', () => {
  const token = (name: string, p: number) => ({ token: name, logprob: Math.log(p) })
  function probability(
    tokens: { token: string; logprob: number; top: { token: string; logprob: number }[] }[] | null,
    options: Record<string, unknown> = {},
  ) {
    const parser = JudgeParser.parse({ kind: 'yes_no', ...options })
    const verdict = readReply({ content: '', logprobs: tokens }, parser)
    return verdict.ok ? verdict.value : verdict.problem
  }

  test('adds up the tokens of a word, the chosen one once', () => {
    const top = [
      token('Yes', 0.5),
      token(' Yes', 0.1),
      token('YES', 0.05),
      token('\u0120yes', 0.05),
      token('No', 0.1),
      token('\u2581no', 0.1),
      token('Maybe', 0.1),
    ]
    expect(probability([{ ...token('Yes', 0.5), top }])).toBeCloseTo(0.7 / 0.9)
    // The chosen token is not among the listed alternatives.
    const without = [{ ...token('No', 0.2), top: [token('Yes', 0.6)] }]
    expect(probability(without)).toBeCloseTo(0.75)
  })

  test('reads the first word, or the last yes or no', () => {
    const said = [
      { ...token('\n', 1), top: [] },
      { ...token('No', 0.9), top: [token('No', 0.9), token('Yes', 0.1)] },
      { ...token(',', 1), top: [] },
      { ...token(' yes', 0.8), top: [token(' yes', 0.8), token(' no', 0.2)] },
    ]
    expect(probability(said)).toBeCloseTo(0.1)
    expect(probability(said, { at: 'last' })).toBeCloseTo(0.8)
  })

  test('a model that meant neither has no score', () => {
    const top = [token('The', 0.9), token('Yes', 0.05), token('No', 0.05)]
    expect(probability([{ ...token('The', 0.9), top }])).toMatch(/10 % of the probability/)
    expect(probability([{ ...token('The', 0.9), top }], { minMass: 0 })).toBeCloseTo(0.5)
    expect(probability([{ ...token('The', 1), top: [] }], { minMass: 0 })).toMatch(/ 0.0 %/)
    expect(probability([])).toMatch(/no token/)
    expect(probability(null)).toMatch(/no log-probabilities/)
  })

  test('accepts custom words, and log-probabilities out of range', () => {
    const pass = [{ ...token('PASS', 0.8), top: [token('PASS', 0.8), token('fail', 0.2)] }]
    expect(probability(pass, { yes: ['pass'], no: ['fail'] })).toBeCloseTo(0.8)
    const odd = [{ token: 'Yes', logprob: 1e6, top: [{ token: 'No', logprob: -9999 }] }]
    expect(probability(odd)).toBe(1)
  })
})

describe('ten thousand random replies', () => {
  /** mulberry32 */
  function seeded(seed: number): () => number {
    let state = seed
    return () => {
      state = (state + 0x6d2b79f5) | 0
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
    }
  }

  const words = [
    'The answer is good.',
    '0',
    'score',
    '[',
    ']',
    '[[',
    ']]',
    '[[]]',
    '[[rating]]',
    '[0]',
    '\u0000',
    '\ud800',
    '𝟘',
    '٠',
    'NaN',
    '-',
    '/10',
    '\\boxed{',
    '}',
    '{"score":',
    ',',
    '```json\n',
    '```',
    '</think>',
    'Infinity',
    'null',
    '\n',
    ' ',
    '10',
    '.5',
  ]

  test('give the only number as the verdict, or a failure, and never a 0 by default', () => {
    const next = seeded(20260122)
    const pick = <Item>(items: readonly Item[]) => items[Math.floor(next() * items.length)] as Item
    const counts = { scored: 0, failed: 0, zero: 0, two: 0 }
    const parser = JudgeParser.parse({ kind: 'bracketed', min: 0, max: 10 })
    for (let at = 0; at < 10_000; at++) {
      let content = ''
      for (let length = Math.floor(next() * 12); length > 0; length--) {
        content += next() < 0.2 ? `[[${Math.floor(next() * 24) / 2}]]` : pick(words)
      }
      const verdict = readReply({ content, logprobs: null }, parser)
      // This search is independent of the parser: it goes backwards from each `]]`, without a regular expression.
      const thought = content.lastIndexOf('</think>')
      const reply = thought < 0 ? content : content.slice(thought + '</think>'.length)
      const values = new Set<string>()
      for (let end = reply.indexOf(']]'); end >= 0; end = reply.indexOf(']]', end + 1)) {
        const start = end === 0 ? -1 : reply.lastIndexOf('[[', end - 1)
        const inside = start < 0 ? '' : reply.slice(start + 2, end)
        if (/[[\]]/.test(inside) || inside.trim() === '') continue
        if (Number.isFinite(Number(inside))) values.add(String(Number(inside)))
      }
      if (verdict.ok) {
        counts.scored++
        expect([...values], content).toEqual([String(verdict.value)])
        if (verdict.value === 0) {
          counts.zero++
          expect(content).toMatch(/\[\[\s*-?\.?0/)
        }
      } else {
        counts.failed++
        expect(verdict.problem).not.toBe('')
        if (values.size > 1) counts.two++
      }
    }
    expect(counts.scored).toBeGreaterThan(1_000)
    expect(counts.failed).toBeGreaterThan(1_000)
    expect(counts.zero).toBeGreaterThan(10)
    expect(counts.two).toBeGreaterThan(100)
  })

  test('give only values that occur in the reply, with the other parsers too', () => {
    const next = seeded(7)
    const pick = <Item>(items: readonly Item[]) => items[Math.floor(next() * items.length)] as Item
    const fragments = [...words, '\\boxed{7}', '{"score": 3}', 'Score: 4', '8', '[[A]]', '[[C]]']
    const parsers = [
      { kind: 'number', min: -10, max: 10, where: 'anywhere' },
      { kind: 'number' },
      { kind: 'boxed' },
      { kind: 'json' },
      { kind: 'verdict', a: 11, b: 12, tie: 13 },
    ].map((parser) => JudgeParser.parse(parser))
    let scored = 0
    for (let at = 0; at < 10_000; at++) {
      const content = Array.from({ length: 1 + Math.floor(next() * 8) }, () =>
        pick(fragments),
      ).join(pick(['', ' ', '\n']))
      const verdict = readReply({ content, logprobs: null }, pick(parsers))
      if (!verdict.ok) {
        expect(verdict.problem).not.toBe('')
        continue
      }
      scored++
      expect(Number.isFinite(verdict.value)).toBe(true)
      const found = verdict.found.replace(/\s/g, '')
      expect(content.replace(/\s|\\text/g, ''), content).toContain(found)
      if (verdict.value === 0) expect(found, content).toMatch(/0/)
    }
    expect(scored).toBeGreaterThan(500)
  })

  test('take linear time for a megabyte of brackets, digits or braces', () => {
    for (const unit of ['[[', '[[1', '1,', '\\boxed{', '{"a":', '{', '8 ', '1.', '\u0120']) {
      const content = unit.repeat(Math.ceil(1_000_000 / unit.length))
      for (const kind of ['bracketed', 'number', 'boxed', 'json', 'verdict'] as const) {
        // A quadratic scan of a megabyte takes minutes, so the test would time out.
        const parser = kind === 'number' ? { kind, where: 'anywhere' } : { kind }
        expect(said(content, parser), `${kind} ${unit}`).not.toBe(0)
      }
    }
  })
})

describe('real judges', () => {
  const file = new URL(
    '../../../../shared/data/mt-bench-judgements/judgements.jsonl',
    import.meta.url,
  )
  const rows = existsSync(file)
    ? readFileSync(file, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as { model: string; judgment: string; score: number })
    : null
  if (rows === null) console.warn('skipped: no replies of a judge in ../shared/data')

  test.skipIf(rows === null)('of MT-Bench: every score and both means are as published', () => {
    const parser = { kind: 'bracketed', min: 1, max: 10 }
    const sums = new Map<string, { sum: number; n: number }>()
    for (const { model, judgment, score } of rows ?? []) {
      expect(said(judgment, parser)).toBe(score)
      const of = sums.get(model) ?? { sum: 0, n: 0 }
      sums.set(model, { sum: of.sum + score, n: of.n + 1 })
    }
    const means = [...sums.values()].map(({ sum, n }) => sum / n).sort()
    expect(means).toEqual([8.340625, 9.228125])
  })
})

describe('a truncated reply', () => {
  const cut = (content: string, parser: Input) => {
    const verdict = readReply(
      { content, logprobs: null, truncated: true },
      JudgeParser.parse(parser),
    )
    return verdict.ok ? verdict.value : null
  }
  test.each<[string, Input, number | null]>([
    ['[[8]] because the', { kind: 'bracketed' }, 8],
    ['because [[8', { kind: 'bracketed' }, null],
    ['\\boxed{1} as', { kind: 'boxed' }, 1],
    ['{"score": 8} I', { kind: 'json' }, 8],
    ['{"score": 8', { kind: 'json' }, null],
    ['[[A]] is', { kind: 'verdict' }, 1],
    // The reply is cut off, so `1` may be the beginning of `10`, and more lines may be missing.
    ['Score: 1', { kind: 'number', label: 'Score' }, null],
    ['Score: 1 as', { kind: 'number', label: 'Score' }, 1],
    ['It has 5 parts', { kind: 'number' }, null],
    ['7', { kind: 'number', where: 'whole' }, null],
    ['7, beca', { kind: 'number', where: 'anywhere' }, 7],
  ])('%j by %j: %s', (content, parser, value) => {
    expect(cut(content, parser)).toBe(value)
  })
})

test.each([' ', '\n\t \n'])('a reply of only whitespace is reported as such: %j', (content) => {
  expect(said(content, { kind: 'json' })).toBe('the reply is only whitespace')
})
