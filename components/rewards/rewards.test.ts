import { describe, expect, test } from 'vitest'
import { excerptAround } from './excerpt.prepare.ts'
import { IMPORT_EXAMPLES } from './import-examples.ts'
import { shellWords, submitCurl } from './import-snippets.ts'
import { rewardsUrl, tryHref } from './rewards-url.ts'
import { TRY_EXAMPLES } from './try-examples.ts'
import { draftOfReward, draftOfSample, EMPTY_TRY, prepareTry } from './try-form.prepare.ts'

const draft = { ...EMPTY_TRY, dataSource: 'openai/gsm8k', prompt: 'Q', response: '#### 72' }
const call = (over: Partial<typeof draft>) => {
  const prepared = prepareTry({ ...draft, ...over })
  if ('errors' in prepared) throw new Error(JSON.stringify(prepared.errors))
  return prepared.call
}
const errors = (over: Partial<typeof draft>) => {
  const prepared = prepareTry({ ...draft, ...over })
  return 'errors' in prepared ? prepared.errors : {}
}

describe('playground form', () => {
  test('sends only the fields that were filled in', () => {
    expect(call({ groundTruth: '72' })).toEqual({
      sample: { dataSource: 'openai/gsm8k', prompt: 'Q', response: '#### 72', groundTruth: '72' },
      reward: {},
    })
    expect(call({ responseLength: ' 12 ' }).sample.responseLength).toBe(12)
    expect(call({}).sample).not.toHaveProperty('groundTruth')
  })

  test.each([
    ['{"target": ["Paris"]}', { target: ['Paris'] }],
    ['["1", "2"]', ['1', '2']],
    ['[0, 1)', '[0, 1)'],
    ['[1, 2]', '[1, 2]'],
    ['{1, 2}', '{1, 2}'],
    ['\\{1\\}', '\\{1\\}'],
    ['"72"', '72'],
  ])('reads the ground truth %s as JSON only if it is JSON', (text, value) => {
    expect(call({ groundTruth: text }).sample.groundTruth).toEqual(value)
  })

  test('parses messages, and keeps other bracketed prompts as text', () => {
    expect(call({ prompt: '[{"role": "user", "content": "Q"}]' }).sample.prompt).toEqual([
      { role: 'user', content: 'Q' },
    ])
    expect(call({ prompt: '[1, 2] has which sum?' }).sample.prompt).toBe('[1, 2] has which sum?')
  })

  test('shows errors at their fields', () => {
    expect(errors({ kwargs: '{"a": 1' }).kwargs).toMatch(/Invalid JSON/)
    expect(errors({ kwargs: '[1]' }).kwargs).toMatch(/a JSON object/)
    expect(errors({ responseLength: '1.5' }).responseLength).toMatch(/whole number/)
    expect(errors({ groundTruth: '{"a": }' }).groundTruth).toMatch(/Invalid JSON/i)
    expect(errors({ reward: 'dapo' }).reward).toMatch(/Invalid JSON/i)
  })

  test.each([
    [{}],
    [{ manager: 'dapo', kwargs: { max_resp_len: 10 } }],
    [{ function: { name: 'math_verify' } }],
    [{ model: 'rm' }],
    [{ model: 'judge', judge: 'yes-no' }],
  ])('round-trips the reward %j through its fields', (reward) => {
    const fields = draftOfReward(JSON.stringify(reward), (model) => model === 'judge')
    expect(fields.reward).toBeNull()
    expect(call({ ...fields }).reward).toEqual(reward)
  })

  test.each([
    [{ combine: [{ name: 'x' }] }],
    [{ function: { path: 'f.ts' } }],
    [{ manager: { path: 'm.ts' } }],
    [{ timeoutMs: 5 }],
  ])('shows the reward %j as JSON, because it has no fields for it', (reward) => {
    const fields = draftOfReward(JSON.stringify(reward), () => false)
    expect(JSON.parse(fields.reward ?? '')).toEqual(reward)
    expect(call({ ...fields }).reward).toEqual(reward)
  })

  test('loads a stored sample as submitted', () => {
    const sample = {
      dataSource: 'x',
      prompt: [{ role: 'user', content: 'Q' }],
      response: 'A',
      groundTruth: '{"not": "an object"}' as unknown,
      extraInfo: { split: 'train' },
      responseLength: 3,
    }
    expect(call(draftOfSample({ ...sample, textsRemovedAt: null })!).sample).toEqual(sample)
    expect(draftOfSample({ ...sample, textsRemovedAt: '2026-11-21T12:00:00.000Z' })).toBeNull()
  })

  test('has valid examples', () => {
    for (const example of TRY_EXAMPLES) call({ ...EMPTY_TRY, ...example.draft })
  })
})

describe('excerpt', () => {
  test('surrounds the last match and omits the ends of a long text', () => {
    expect(excerptAround('7 and 7', '7')).toEqual({
      before: '7 and ',
      found: '7',
      after: '',
      cutBefore: 0,
      cutAfter: 0,
    })
    const long = excerptAround(`${'a'.repeat(5_000)}42${'b'.repeat(5_000)}`, '42')
    expect(long).toMatchObject({ cutBefore: 4_400, cutAfter: 4_700 })
    expect(excerptAround('nothing', '42')).toBeNull()
    expect(excerptAround('nothing', '')).toBeNull()
  })

  test('never splits a surrogate pair', () => {
    const text = `${'😀'.repeat(400)}x`
    const { before, cutBefore } = excerptAround(text, 'x')!
    expect(before.isWellFormed()).toBe(true)
    expect(before.length + cutBefore).toBe(800)
  })
})

describe('links and snippets', () => {
  test('a playground link contains the reward and the sample', () => {
    const href = tryHref({ manager: 'dapo' }, 'b1-2')
    const state = rewardsUrl.parse(new URL(href, 'http://x').searchParams)
    expect(state).toMatchObject({
      view: 'try',
      sample: 'b1-2',
      reward: '{"manager":"dapo"}',
    })
    expect(tryHref({})).toBe('/rewards?view=try')
    expect(`${rewardsUrl.write(rewardsUrl.parse(new URLSearchParams('')))}`).toBe('')
  })

  test('the curl command quotes any text for the shell', () => {
    const text = submitCurl(
      { reward: { kwargs: { a: "it's" } }, groupSize: 16 },
      'http://127.0.0.1:3000',
      true,
    )
    const json = /-d '([\s\S]*)'$/.exec(text)?.[1]?.replaceAll("'\\''", "'") ?? ''
    expect(JSON.parse(json)).toMatchObject({
      groupSize: 16,
      reward: { kwargs: { a: "it's" } },
    })
    expect(text).toContain('Bearer $REWARDOPS_KEY')
    expect(shellWords(['vllm', 'serve', 'a b', "it's"])).toBe("vllm serve 'a b' 'it'\\''s'")
  })

  test('examples cover every form of configuration', () => {
    expect(IMPORT_EXAMPLES.map(({ text }) => /^reward:/m.test(text))).toEqual([true, false, false])
  })
})
