/**
 * Responses of up to 1 MB (256 KB in the quick run) that are built to be slow. The tests check the verdict and the
 * growth of CPU time when the text becomes four times as long: about 4 for linear work, 16 for quadratic work. A
 * quadratic rule fails at 64 KB, before it takes minutes.
 */

import { expect, test } from 'vitest'
import { verifyResponse } from '../../../packages/math-verify/src/index.ts'
import { RULE_CASES, truthOf } from '../../../testkit/rules/rule-cases.ts'
import { inFullRun } from '../../../testkit/service/full-run.ts'
import { ruleByName } from './registry.ts'

const lengths = [16_384, 65_536, 262_144, ...inFullRun(1_048_576)]

/** CPU time, ms, below which the clock and the garbage collector dominate a measurement. */
const noiseMs = 4

/** Maximum growth of CPU time, between 4 and 16, and nearer to 16 because pauses add to the measured time. */
const mostGrowth = 11

const cases = Object.entries(RULE_CASES).flatMap(([name, { slow }]) =>
  slow.map((text) => {
    const title = [`${name}:`, text.place, JSON.stringify(text.unit)].filter(Boolean).join(' ')
    return { name, title, ...text }
  }),
)

test.for(cases)('$title', { timeout: 60_000 }, (given) => {
  const { name, kwargs = {}, unit, response, accepted, wanted } = given
  const rule = ruleByName(name)!
  let before = Number.POSITIVE_INFINITY
  for (const length of lengths) {
    const units = unit.repeat(Math.ceil(length / unit.length))
    const input = {
      dataSource: 'any',
      solutionStr: response?.(units) ?? units,
      groundTruth: truthOf(name, accepted?.(units) ?? '1'),
      extraInfo: {},
      kwargs,
    }
    const spent = cpuMs(() => expect(rule.score(input).score).toBe(wanted))
    expect(spent, `${length} characters after ${before} ms`).toBeLessThan(
      mostGrowth * Math.max(before, noiseMs),
    )
    before = spent
  }
})

function cpuMs(work: () => void): number {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < 3 && least > noiseMs; run++) {
    const start = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(start)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

/**
 * Answers of up to nearly the maximum length, built to slow parsers down. An answer of nearly four times the length
 * may take at most eleven times as long.
 */
test.for(
  [
    ...[
      '(',
      '[',
      '{',
      '|',
      '{|',
      '{|x',
      '|x',
      'a|b',
      '\\left|',
      '\\left(',
      '\\frac{1}{',
      '\\frac1',
      '\\sqrt{',
    ],
    ...[
      '-',
      '1+',
      'x',
      'x+',
      '9^',
      '9^{',
      '^',
      '_',
      'x_{',
      '\\sin',
      '\\log_',
      'f(',
      '1,',
      '(1,2),',
      '\\pm',
      '1\\pm',
    ],
    ...[
      '=',
      '<',
      'x=',
      '1<',
      '\\cup',
      '[1,2]\\cup',
      '\\{1\\},',
      '\\begin{pmatrix}',
      '1&',
      '\\\\',
      '!',
      '5!',
      '%',
    ],
    ...[
      '\\text{',
      '\\text{a}',
      '\\binom{9}{',
      '(a+b)',
      '(a+b)^{40}',
      '\\overline{',
      '0.\\overline{3}',
      '123 456 ',
    ],
    ...[
      '1/7+',
      '\\sqrt2+',
      '\\lfloor',
      '\\max(',
      'and ',
      'percent',
      '\\ ',
      ' sqrt(',
      '^(',
      '1:',
      'cm ',
      '\\circ',
    ],
  ].map((unit) => ({ unit })),
)('math_verify: an answer full of $unit', { timeout: 60_000 }, ({ unit }) => {
  let before = Number.POSITIVE_INFINITY
  for (const length of [500, 1_900]) {
    const answer = unit.repeat(Math.ceil(length / unit.length)).slice(0, length)
    const spent = cpuMs(() => {
      verifyResponse(`\\boxed{1+${answer}}`, `1+${answer}+0`, { deadlineMs: 5_000 })
    })
    expect(spent, `${length} characters after ${before} ms`).toBeLessThan(
      mostGrowth * Math.max(before, noiseMs),
    )
    before = spent
  }
})
