import { describe, expect, test } from 'vitest'
import { GroundTruthError, OutOfBudget, parse, verify, verifyResponse } from '../src/index.ts'

const box = (answer: string) => `So it is $\\boxed{${answer}}$.`
const isRight = (answer: string, truth: string) => verifyResponse(box(answer), truth).correct

describe('one answer in several notations', () => {
  test.for<[name: string, answers: string[]]>([
    ['fractions', ['\\frac{3}{4}', '\\dfrac34', '3/4', '0.75', '75\\%', '\\frac{6}{8}', '.75']],
    ['mixed numbers', ['1\\frac{1}{2}', '\\frac32', '1.5', '1 1/2', '3 : 2']],
    ['grouped numbers', ['1,024', '1{,}024', '1\\,024', '1024', '2^{10}', '1 024', '\\$1,024']],
    ['roots', ['2\\sqrt{2}', '\\sqrt8', '2\\sqrt2', '8^{1/2}', '\\sqrt{2}\\cdot 2']],
    [
      'denominators',
      ['\\frac{1}{\\sqrt{2}}', '\\frac{\\sqrt{2}}{2}', '\\sin 45^\\circ'].slice(0, 2),
    ],
    [
      'functions',
      [
        '\\log_2 8',
        '3',
        '\\sqrt[3]{27}',
        '\\lfloor 3.7 \\rfloor',
        '\\binom{3}{1}',
        '|-3|',
        '\\gcd(6, 9)',
      ],
    ],
    ['polynomials', ['x^2-1', '(x-1)(x+1)', '-1+x^2']],
    ['factorials', ['10!', '3628800', '3{,}628{,}800']],
    ['trigonometry', ['\\sin 2x', '2\\sin x\\cos x', '\\sin(2x)', '2 \\cos x \\sin x']],
    ['exponentials', ['e^{x+y}', 'e^x e^y']],
    ['complex numbers', ['2+3i', '3i+2', '(1+i)(2.5+0.5i)']],
    ['periods', ['\\frac13', '0.\\overline{3}', '\\frac{-1}{-3}', '0.333333']],
    ['signs', ['-\\frac{1}{3}', '\\frac{-1}{3}', '\\frac{1}{-3}', '-(1/3)']],
    ['powers of ten', ['1000', '10^3', '1.0 \\times 10^{3}', '1E3']],
    [
      'units',
      ['5', '5 \\text{ cm}', '5\\mbox{ cm}^2', '5 cm', '5^\\circ', '\\$5', '5 \\text{ dollars}'],
    ],
    ['sets', ['\\{1,-1\\}', '1,-1', '-1, 1', '\\pm 1', '1 \\text{ or } -1', 'x = \\pm 1']],
    ['tuples', ['(1, 2, 3)', '\\left(1,2,3\\right)', '(1, 4/2, 3)']],
    [
      'pairs',
      ['(\\frac12, \\frac34)', '(0.5, 0.75)', '\\left( \\frac{1}{2}, \\frac{3}{4} \\right)'],
    ],
    ['sets of tuples', ['(1,2),(3,4)', '\\{(3,4),(1,2)\\}']],
    ['intervals', ['[1,2)', '[1, \\frac{4}{2})']],
    ['unions', ['(-\\infty,1)\\cup(1,\\infty)', '\\mathbb{R}\\setminus\\{1\\}']],
    ['unions of touching intervals', ['(1,2]\\cup(2,3)', '(1,2)\\cup[2,3)', '(1,3)']],
    ['equations', ['y = 2x+1', '2x - y + 1 = 0', 'y = 1 + 2x', '4x + 2 = 2y']],
    ['inequalities', ['x < 3', '3 > x', '-x > -3', '2x < 6']],
    ['chains', ['1 < x < 2', '2 > x > 1']],
    [
      'matrices',
      ['\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}', '\\begin{bmatrix} 1 \\\\ 4/2 \\end{bmatrix}'],
    ],
    [
      'matrix arithmetic',
      ['\\begin{pmatrix}2&2\\\\0&2\\end{pmatrix}', '2\\begin{pmatrix}1&1\\\\0&1\\end{pmatrix}'],
    ],
    ['choices', ['A', '\\text{A}', '\\text{(A)}', '\\textbf{A}', '(A)']],
    ['words', ['\\text{Evelyn}', 'Evelyn', '\\mathrm{evelyn}']],
    ['no element', ['\\emptyset', '\\varnothing', '\\{\\}', '[1,3)\\cap[3,5]', '(1,3]\\cap(3,5)']],
    ['one common element', ['\\{3\\}', '[1,3]\\cap[3,5]']],
  ])('%s', ([, answers]) => {
    for (const truth of answers) {
      for (const answer of answers)
        expect(isRight(answer, truth), `${answer} for ${truth}`).toBe(true)
    }
  })

  test('an assignment equals its value, and a condition its set', () => {
    for (const [answer, truth] of [
      ['x = 5', '5'],
      ['5', 'x = 5'],
      ['x = 2 + 3 = 5', '5'],
      ['k \\approx 5', '5'],
      ['f(x) = 2x+1', '2x+1'],
      ['x \\in [-2,7]', '[-2,7]'],
      ['x \\in [-2,7]', '-2 \\le x \\le 7'],
      ['x = 1, 2', '\\{1,2\\}'],
      ['x = 1, x = 2', '\\{1,2\\}'],
      ['(x, y) = (7, 6)', '(7, 6)'],
      ['(1, 2)', '\\{1, 2\\}'],
    ] as const) {
      expect(isRight(answer, truth), `${answer} for ${truth}`).toBe(true)
    }
  })
})

test.for<[answer: string, truth: string]>([
  ['\\frac{3}{5}', '\\frac{3}{4}'],
  ['0.33', '\\frac13'],
  ['3.14', '\\pi'],
  ['1.414', '\\sqrt2'],
  ['32, 349', '32349'],
  ['(2, 1)', '(1, 2)'],
  ['[1,2]', '[1,2)'],
  ['(1,\\infty)', '1 < x < 2'],
  ['(1,2)\\cup(2,3)', '(1,3)'],
  ['(-\\infty,2)\\cup(2,\\infty)', '(-\\infty,\\infty)'],
  ['\\mathbb{R}', '(-\\infty,2)\\cup(2,\\infty)'],
  ['x = 5', 'y = 5'],
  ['x > 3', 'x < 3'],
  ['x \\le 3', 'x < 3'],
  ['5', '5x'],
  ['x+1', 'x+2n+1'],
  ['(+5)(b+2)', '(a+5)(b+2)'],
  ['\\text{B}', '\\text{A}'],
  ['1', '\\sqrt{19}'],
  ['{1,2}', '{1,2,3}'],
  ['\\{1,1\\}', '\\{1,2\\}'],
  ['-i', 'i'],
  ['\\begin{pmatrix}1&2\\\\3&5\\end{pmatrix}', '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}'],
  ['10', '10\\%'],
  ['2^{16001}', '2^{16000}'],
  ['f(2)', 'f(1)'],
  ['-2 \\le x \\le 7', 'x \\in [-2,7]'],
])('%s is not %s', ([answer, truth]) => {
  expect(isRight(answer, truth)).toBe(false)
})

test('a condition is a set if the options allow it', () => {
  const options = { allowSetRelation: true }
  const truth = 'x \\in [-2,7]'
  expect(verifyResponse(box('-2 \\le x \\le 7'), truth, options).correct).toBe(true)
  expect(verifyResponse(box('-2 \\le x < 7'), truth, options).correct).toBe(false)
})

describe('location of the answer', () => {
  test.for<[response: string, extracted: string | null]>([
    ['It is $4$, no, \\boxed{5}. Well, $6$.', '5'],
    ['first $\\boxed{1}$, then after a long way of some forty characters $\\boxed{2}$', '2'],
    ['$\\boxed{1}$ and $\\boxed{2}$', '1 and 2'],
    ['\\boxed{1} or \\boxed{2}', '1,2'],
    ['Final Answer: The final answer is $7$. I hope it is correct. \\boxed{8}', '7'],
    ['The final answer is 7. Then \\boxed{8}', '8'],
    ['Answer: 12 apples, of 15', '12'],
    ['the answer $x$ is $5$', '5'],
    ['The answer: $5$ (not $6$).', '5'],
    ['We get $3$, then $4$', '4'],
    ['We get $3$ and 5 of them', '5'],
    ['it costs $1,000.50 a day', '1000.50'],
    ['3/4 of it', '3/4'],
    ['about 12 % of it', '12'],
    ['he has 3 apples and 4 pears', '4'],
    ['XY2K', null],
    ['no number', null],
    ['', null],
  ])('%j: %j', ([response, extracted]) => {
    expect(verifyResponse(response, '5').extracted).toBe(extracted)
  })

  test('the verdict has a reason', () => {
    const verdict = { correct: true, extracted: '\\frac{1}{2}', reason: 'equal' }
    expect(verifyResponse(box('\\frac12'), '0.5')).toEqual(verdict)
    expect(verifyResponse(box('6'), '5')).toMatchObject({ correct: false, reason: 'different' })
    expect(verifyResponse('who knows', '5').reason).toBe('no_answer')
    expect(verifyResponse(box('a ? b'), '5').reason).toBe('not_readable')
    expect(verifyResponse(box('a ? b'), 'a ? b').reason).toBe('same_text')
    expect(verifyResponse(box('9^{9^9}'), '5').reason).toBe('too_large')
  })
})

describe('limits', () => {
  test.for([
    '9^{9^{9^9}}',
    '2^{10^{9}}',
    '100000!',
    '\\binom{10^9}{5000}',
    '((2^{1000})^{1000})^{1000}',
    `${'9'.repeat(5_000)}`,
    `${'('.repeat(500)}1${')'.repeat(500)}`,
    '\\sqrt{'.repeat(100).concat('1', '}'.repeat(100)),
  ])('%.30s is refused', (answer) => {
    expect(verifyResponse(box(answer), '5')).toMatchObject({ correct: false })
    expect(['too_large', 'not_readable']).toContain(verifyResponse(box(answer), '5').reason)
  })

  test('an answer beyond the limits is still equal to itself', () => {
    expect(isRight('9^{9^{9^9}}', '9^{9^{9^9}}')).toBe(true)
  })

  test('a comparison past its deadline throws', () => {
    const terms = Array.from({ length: 60 }, (_, at) => `\\sqrt{${at + 2}}`).join(',')
    const answer = box(`\\{${terms}\\}`)
    const truth = `\\{${terms.split(',').reverse().join(',')}\\}`
    // CPU time is measured in milliseconds, so a single comparison might not reach the deadline.
    expect(() => {
      for (let at = 0; at < 50; at++) {
        verifyResponse(answer, truth.replace('\\{', `\\{${at},`), { deadlineMs: 1 })
      }
    }).toThrow(OutOfBudget)
  })

  test('only the last 65,536 characters are read', () => {
    expect(verifyResponse(`${box('5')}${'x'.repeat(60_000)}`, '5').correct).toBe(true)
    expect(verifyResponse(`${box('5')}${'x'.repeat(70_000)}`, '5').correct).toBe(false)
  })
})

test('a ground truth without an answer is an error', () => {
  for (const truth of ['', '   ']) {
    expect(() => verifyResponse(box('5'), truth)).toThrow(GroundTruthError)
  }
})

test('parsed answers are compared, the ground truth first', () => {
  expect(verify(parse('$x = 5$'), parse('5')).correct).toBe(true)
  expect(verify(parse('$(1, 2)$', ['latex']), parse('[1, 2]', ['latex'])).correct).toBe(false)
})
