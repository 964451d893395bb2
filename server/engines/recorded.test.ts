import { describe, expect, test } from 'vitest'
import { engineOf } from './registry.ts'
import { type RecordedAnswer, recordings } from './testing/recorded.ts'

/**
 * The expected result of each recorded request, by its `situation`. Requests that are not listed are never used to
 * score samples.
 */
const EXPECTED: [situation: RegExp, expected: Record<string, unknown>][] = [
  [/^(?:classify, input|score, text_1|pooling, token_classify, input)$/, { ok: true }],
  [/^(?:rerank|no model|no activation word)$/, { ok: true }],
  [/^too long/, { ok: false, reason: 'context_exceeded' }],
  [/^engine dead, \/(?:classify|score)$/, { ok: false, class: 'fault' }],
]

/** Matches answers of servers that do not support the route for their model: 404, 501, or 200 with an error. */
const UNSUPPORTED = /does not support|Not Found|Try switching/

describe.each(recordings())('%s', (_, { engine, models, answers }) => {
  const adapter = engineOf(engine)
  const scoring = answers.filter(
    ({ model, text, request: { path } }) =>
      models[model]?.serves !== 'generate' &&
      (engine === 'llamacpp' || !path.endsWith('/rerank')) &&
      !UNSUPPORTED.test(text),
  )
  const cases = EXPECTED.flatMap(([situation, expected]) =>
    scoring
      // vLLM 0.11.0 answers `messages` with a validation error.
      .filter((a) => situation.test(a.situation) && !a.text.includes('validation error'))
      .map((a): [string, RecordedAnswer, Record<string, unknown>] => [
        `${a.model}: ${a.situation}`,
        a,
        expected,
      ]),
  )

  test.each(cases)('%s', (_, { status, headers, text }, expected) => {
    expect(adapter.parseScoreResponse(status, headers, text)).toMatchObject(expected)
  })
})
