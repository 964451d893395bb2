/** Verdicts on short texts; each expected value is the result of verl's function. */
import { describe, expect, test } from 'vitest'
import { normalizeFinalAnswer } from './dapo-normalize.ts'
import { ruleForDataSource } from './registry.ts'
import { decimalText, RuleInputError, type RuleResult } from './rule.ts'

function score(
  dataSource: string,
  solutionStr: string,
  groundTruth: unknown,
  kwargs: Record<string, unknown> = {},
): RuleResult {
  const input = { dataSource, solutionStr, groundTruth, extraInfo: {}, kwargs }
  return ruleForDataSource(dataSource)!.score(input)
}

const gsm8k = 'openai/gsm8k'
const math = 'lighteval/MATH'
const search = 'searchR1_hotpotqa'

describe('gsm8k', () => {
  test.for<[solution: string, truth: string, strict: number, flexible: number]>([
    ['so #### 72', '72', 1, 1],
    ['#### 1,234', '1234', 1, 0],
    ['#### 1\n#### 2', '2', 1, 1],
    ['##### 42', '42', 1, 1],
    ['####42', '42', 0, 1],
    ['#### $42', '42', 0, 1],
    ['#### 42.', '42', 0, 0],
    ['#### 42.0', '42', 0, 0],
    ['#### 1-2', '1', 1, 0],
    ['#### -3', '-3', 1, 1],
    ['#### 5 . . .', '5', 1, 1],
    ['#### 5 , .', '5', 1, 0],
    ['the end.', '.', 0, 1],
    ['#### ,', '', 1, 0],
    ['#### ４２', '42', 0, 0],
    ['#### 7\u0000', '7', 1, 1],
  ])('%j against %j', ([solution, truth, strict, flexible]) => {
    expect(score(gsm8k, solution, truth)).toMatchObject({ score: strict, extra: { acc: strict } })
    expect(score(gsm8k, solution, truth, { method: 'flexible' }).score).toBe(flexible)
  })

  test('the last 300 code points count, regardless of their UTF-16 length', () => {
    for (const filler of ['x', '😀', '\ud83d', '\n']) {
      expect(score(gsm8k, `#### 7${filler.repeat(294)}`, '7').score).toBe(1)
      expect(score(gsm8k, `#### 7${filler.repeat(295)}`, '7').score).toBe(0)
    }
  })

  test('a wrong answer gets the format score, no answer 0, the correct one the score', () => {
    const kwargs = { format_score: 0.1, score: 5 }
    expect(score(gsm8k, '#### 41', '42', kwargs)).toMatchObject({ score: 0.1, extra: { acc: 0.1 } })
    expect(score(gsm8k, 'forty-two', '42', kwargs).score).toBe(0)
    expect(score(gsm8k, '#### 42', '42', kwargs).score).toBe(5)
  })
})

describe('math_reward', () => {
  test.for<[solution: string, truth: string, wanted: number]>([
    ['is $\\boxed{\\frac{1}{2}}$.', '\\frac12', 1],
    ['\\boxed{1} and \\boxed{2}', '2', 1],
    ['\\boxed{1} and \\boxed 2$ and \\boxed{3}', '2', 1],
    ['\\boxed 2', '2', 1],
    ['\\boxed {5}', '5', 0],
    ['\\fbox{7}', '7', 0],
    ['\\boxed3{4}', '3{4', 0],
    ['\\boxed{5', '5', 0],
    ['}} \\boxed{5}', '5', 1],
    ['\\boxed{\\text{5 }cm}', '5', 0],
    ['\\boxed{10\\text{ cm}}', '10', 1],
    ['\\boxed{1\\text{ m }2\\text{ cm}}', '1', 0],
    ['\\boxed{x=3}', '3', 1],
    ['\\boxed{😀😀=3}', '3', 1],
    ['\\boxed{abc=3}', '3', 0],
    ['\\boxed{x=y=3}', '3', 0],
    ['\\boxed{\\sqrt😀}', '\\sqrt{😀}', 1],
    ['\\boxed{\\sqrt}', '\\sqrt', 1],
    ['\\boxed{2\\sqrt}', '2 \\sqrt', 0],
    ['\\boxed{\\frac😀}', '\\frac{😀}', 0],
    ['\\boxed{\\frac1😀2}', '\\frac{1}{😀}2', 1],
    ['\\boxed{-3/4}', '\\frac{-3}{4}', 1],
    ['\\boxed{-0/4}', '\\frac{-0}{4}', 0],
    ['\\boxed{3/+4}', '\\frac{3}{4}', 0],
    ['\\boxed{\\dfrac{a}{b}}', '\\tfrac ab', 1],
    ['\\boxed{50\\\\\\%}', '50', 1],
    ['\\boxed{ .5}', '0.5', 1],
    ['\\boxed{.5}', '\\frac{1}{2}', 1],
    [`\\boxed{1/${'7'.repeat(4300)}}`, `\\frac{1}{${'7'.repeat(4300)}}`, 1],
    [`\\boxed{1/${'7'.repeat(4301)}}`, `\\frac{1}{${'7'.repeat(4301)}}`, 0],
    ['5', '5', 0],
    ['', '', 0],
  ])('%j against %j', ([solution, truth, wanted]) => {
    expect(score(math, solution, truth)).toMatchObject({ score: wanted, extra: { acc: wanted } })
  })
})

describe('math_dapo', () => {
  test.for<[solution: string, truth: string, pred: string, correct: boolean]>([
    ['Answer: 42', '42', '42', true],
    ['ANSWER :\n\n 42', '42', '42', true],
    ['Anſwer: 42', '42', '42', true],
    ['Answer: 1\u2028 2', '1\u20282', '1\u20282', true],
    ['Answer: 1\rAnswer: 2', '1', '1\rAnswer:2', false],
    ['Answer\u0085:\u001c5', '5', '5', true],
    ['Answer:\ufeff5', '5', '\ufeff5', false],
    ['Answer: 5', '\u001c5\u0085', '5', true],
    ['Answer: Answer: 5', '5', 'Answer:5', false],
    ['Answer: $3$ or $4$', '3', '3', true],
    ['Answer: $5.$', '5', '5', true],
    ['Answer: \\$5', '5', '5', true],
    ['Answer: \\text{a} \\textbf{b} \\overline{c}', 'abc', 'abc', true],
    ['Answer: \\text{\\text{x}}', 'x', '\\text{x}', false],
    ['Answer: \\boxed{1}{2}', '1}{2', '1}{2', true],
    ['Answer: \\frac😀2', '\\frac{😀}{2}', '\\frac{😀}{2}', true],
    ['Answer: x^2 squares', 'x^2s', 'x^2s', true],
    ['Answer: 1,2', '12', '12', true],
    ['Answer: 1,²', '1²', '1²', true],
    ['Answer: 5.', '5', '5.', false],
    ['no answer', '[INVALID]', '[INVALID]', true],
    ['no answer', '5', '[INVALID]', false],
  ])('%j against %j', ([solution, truth, pred, correct]) => {
    const wanted = correct ? 1 : -1
    expect(score('math_dapo', solution, truth)).toMatchObject({
      score: wanted,
      extra: { score: wanted, acc: correct, pred },
    })
  })

  test('the last 300 code points count, regardless of their UTF-16 length', () => {
    const pred = (filler: string, count: number) =>
      score('math_dapo', `Answer: 5${filler.repeat(count)}`, '5').extra.pred
    expect(pred(' ', 291)).toBe('5')
    expect(pred(' ', 292)).toBe('[INVALID]')
    expect(pred('😀', 291)).toBe(`5${'😀'.repeat(291)}`)
    expect(pred('😀', 292)).toBe('[INVALID]')
  })

  test.for<[answer: string, normalized: string]>([
    ['x\n$5$ or $6$', 'x\n5'],
    ['$1\n2$ or $3$', '1\nor'],
    ['\\text{5\n}', '\\text{5\n}'],
    ['\\text{\nx}', '\\text{\nx}'],
    ['\\boxed{1}\n}', '1\n}'],
    ['\\frac\n2', '\\frac{\n}{2}'],
    ['\\frac2\n', '\\frac2'],
    ['\\sqrt\n', '\\sqrt{\n}'],
    ['\\text{\\text{x}}', '\\text{x}'],
    ['\\text{ \\text{a} b}', '\\text{ab}'],
  ])('%j becomes %j', ([answer, normalized]) => {
    expect(normalizeFinalAnswer(answer)).toBe(normalized)
  })

  test('a boxed answer near the end counts since 2026-08 if there is no other answer', () => {
    const newer = { version: '2026-08' }
    const boxed = (kwargs: Record<string, unknown>, text: string, truth = '42') =>
      score('aime24', text, truth, kwargs).extra
    const wrong = { score: -1, acc: false, pred: '[INVALID]' }
    expect(boxed({}, '\\boxed{42}')).toEqual(wrong)
    expect(boxed(newer, '\\boxed{42}')).toEqual({ score: 1, acc: true, pred: '42' })
    expect(boxed(newer, '\\boxed{4 2}')).toEqual({ score: -1, acc: false, pred: '4 2' })
    expect(boxed(newer, `\\boxed{42}${' '.repeat(91)}`)).toEqual(wrong)
    expect(boxed(newer, 'Answer: 41 \\boxed{42}').score).toBe(-1)
    expect(boxed(newer, '\\boxed{42', '[INVALID]').score).toBe(1)
  })

  test('strict box compares the content of the box unchanged', () => {
    const strict = (text: string, truth: string, kwargs = {}) =>
      score('math', text, truth, { strict_box_verify: true, ...kwargs }).extra
    expect(strict('\\boxed{\\frac{1}{2}}', '\\frac{1}{2}').acc).toBe(true)
    expect(strict('\\boxed{42 }', '42')).toEqual({ score: -1, acc: false, pred: '42 ' })
    expect(strict('Answer: 42', '42')).toEqual({ score: -1, acc: false, pred: null })
    expect(strict('\\boxed{1} \\boxed{2', '1').pred).toBe(null)
    const far = `\\boxed{42}${' '.repeat(150)}`
    expect(strict(far, '42').acc).toBe(false)
    expect(strict(far, '42', { pause_tokens_index: [0, 0, 0, 100] }).acc).toBe(true)
    expect(strict(far, '42', { pause_tokens_index: [0, 0, 0, 101] }).acc).toBe(false)
    expect(strict('\\boxed{42}', '42', { pause_tokens_index: [0, 0, 0, 90] }).acc).toBe(true)
    expect(strict('\\boxed{42}', '42', { pause_tokens_index: [0, 0, 0, 91] }).acc).toBe(false)
  })
})

describe('search_r1', () => {
  test.for<[solution: string, target: string | string[], em: number, subem: number]>([
    ['<answer> The Eiffel Tower. </answer>', 'eiffel tower', 1, 1],
    ['<answer>Paris, France</answer>', ['Rome', 'Paris'], 0, 1],
    ['<answer>1</answer><answer>2</answer>', '1', 0, 0],
    ['<answer>1<answer>2</answer>', '2', 0, 1],
    ['</answer><answer>2</answer><answer>', '2', 1, 1],
    ['<ANSWER>2</ANSWER>', '2', 0, 0],
    ['<answer>éa the b</answer>', 'éa b', 1, 1],
    ['<answer>the\u00a0end\u0085</answer>', 'end', 1, 1],
    ['<answer>x\u001fy</answer>', 'x y', 1, 1],
    ['<answer>x\ufeffy</answer>', 'x y', 0, 0],
    ['<answer>a_an</answer>', 'aan', 1, 1],
    ['<answer>ΑΣ</answer>', 'ας', 1, 1],
    ['<answer></answer>', '', 1, 1],
    ['<answer>x</answer>'.repeat(10), 'x', 1, 1],
    ['<answer>x</answer>'.repeat(11), 'x', 0.25, 1],
    [`<answer>x</answer>${'</answer>'.repeat(10)}`, 'x', 0.25, 1],
  ])('%j against %j', ([solution, target, em, subem]) => {
    expect(score(search, solution, { target })).toMatchObject({ score: em, extra: { acc: em } })
    expect(score(search, solution, { target }, { method: 'subem' }).score).toBe(subem)
    expect(score(search, solution, { target }, { method: 'strict' }).score).toBe(em)
  })

  test('a wrong answer gets the format score, no answer 0', () => {
    const kwargs = { format_score: 0.2, score: 2 }
    expect(score(search, '<answer>x</answer>', { target: 'y' }, kwargs).score).toBe(0.2)
    expect(score(search, 'x', { target: 'y' }, kwargs).score).toBe(0)
    expect(score(search, '<answer>y</answer>'.repeat(11), { target: 'y' }, kwargs).score).toBe(0.5)
  })
})

describe('ground truth', () => {
  const textSources: [source: string, solution: string][] = [
    [gsm8k, '#### 72'],
    [math, '\\boxed{72}'],
    ['math_dapo', 'Answer: 72'],
  ]

  test.for(textSources)('%s takes a number as its decimal text', ([source, solution]) => {
    expect(score(source, solution, 72).score).toBe(1)
  })

  test.for(textSources)('%s fails on any other type and never scores', ([source, solution]) => {
    for (const truth of [undefined, null, true, ['72'], { target: '72' }, Number.NaN]) {
      expect(() => score(source, solution, truth), String(truth)).toThrow(RuleInputError)
    }
    expect(() => score(source, solution, undefined)).toThrow(/groundTruth is missing/)
    expect(() => score(source, solution, { style: 'rule', ground_truth: '72' })).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('reward_model.ground_truth') }),
    )
  })

  test('search_r1 requires an object with a non-empty target', () => {
    const wrong = [undefined, null, 'Paris', ['Paris'], {}, { target: null }, { target: [] }]
    for (const truth of [...wrong, { target: [null] }, { target: { a: 1 } }]) {
      expect(() => score(search, 'no answer', truth), JSON.stringify(truth)).toThrow(RuleInputError)
    }
    expect(score(search, '<answer>1,999</answer>', { target: [1999] }).score).toBe(1)
  })

  test.for<[value: number, text: string]>([
    [72, '72'],
    [-0, '0'],
    [0.5, '0.5'],
    [-1.25, '-1.25'],
    [1e21, '1000000000000000000000'],
    [-1.5e22, '-15000000000000000000000'],
    [1e-7, '0.0000001'],
    [-1.25e-9, '-0.00000000125'],
  ])('%d is %s', ([value, text]) => expect(decimalText(value)).toBe(text))
})

test('an invalid kwarg that was not checked before fails the sample and is named', () => {
  const wrong = () => score(gsm8k, '#### 1', '1', { method: 'loose' })
  expect(wrong).toThrow(RuleInputError)
  expect(wrong).toThrow(/kwarg "method" of rule gsm8k/)
})

test.for<[source: string, solution: string, truth: unknown, extracted: string | null, why: string]>(
  [
    [gsm8k, '#### 1,234', '1234', '1234', 'equal'],
    [gsm8k, '#### 5', '6', '5', 'different'],
    [gsm8k, 'five', '5', null, 'no answer'],
    [math, '\\boxed{\\frac12}', '\\frac{1}{2}', '\\frac12', 'equal'],
    [math, 'five', '5', null, 'no answer'],
    ['math_dapo', 'Answer: 5 dollars', '5', '5', 'equal'],
    ['math_dapo', 'five', '5', null, 'no answer'],
    [search, '<answer> Paris </answer>', { target: 'Paris' }, 'Paris', 'equal'],
    [search, '<answer>Rome</answer>', { target: 'Paris' }, 'Rome', 'different'],
    [search, '<answer>x</answer>'.repeat(11), { target: 'x' }, 'x', 'equal, too many answer tags'],
  ],
)('%s of %j against %j read %j: %s', ([source, solution, truth, extracted, reason]) => {
  expect(score(source, solution, truth)).toMatchObject({ extracted, reason })
})
