import { expect, it } from 'vitest'
import { classifyStatus, readJsonAnswer } from '../engines/answer.ts'
import { appRouter } from './root.ts'
import { failuresFor, quotesServers } from './upstream-text.ts'

const secret = 'postgres://user:secret@10.0.0.7/db in /srv/model/app.py'
const detailOf = (answer: unknown) => (answer as { detail: string }).detail

it.each([
  ['an error', classifyStatus(500, {}, `{"error":{"message":"${secret}"}}`), 'answered 500'],
  ['plain text', classifyStatus(400, {}, secret), 'answered 400'],
  ['a page', classifyStatus(502, {}, `<html><title>${secret}</title></html>`), 'answered 502'],
  ['no JSON', readJsonAnswer(200, {}, secret), 'answered with something that is not JSON'],
  [
    'a page with 200',
    readJsonAnswer(200, {}, `<html>${secret}</html>`),
    'answered with an HTML page',
  ],
  [
    'NaN',
    readJsonAnswer(200, {}, `{"score": NaN, "host": "${secret}"}`),
    'answered NaN or an infinity',
  ],
])('leaves out the text of a server in %s, except for admins', (_, failure, words) => {
  const output = { attempts: [{ attempt: 1, detail: detailOf(failure) }], rewardExtraInfo: failure }
  expect(JSON.stringify(output.attempts)).toContain('secret')
  expect(failuresFor({ role: 'admin' }, output)).toBe(output)
  for (const actor of [{ role: 'trainer' }, { role: 'viewer' }, null] as const) {
    const { attempts, rewardExtraInfo } = failuresFor(actor, output)
    expect(attempts).toEqual([{ attempt: 1, detail: words }])
    // Texts of trainers and functions are not redacted.
    expect(rewardExtraInfo).toBe(failure)
  }
})

it('knows the procedures whose outputs quote servers', () => {
  const quoting = Object.keys(appRouter._def.procedures).filter(quotesServers)
  expect(quoting).toEqual(
    expect.arrayContaining([
      'samples.get',
      'samples.score',
      'rewards.try',
      'servers.get',
      'overview.get',
      'fleet.history',
    ]),
  )
  const cause = 'unreachable: GET /health answered 500: secret'
  expect(failuresFor({ role: 'viewer' }, { events: [{ cause }], stateCause: cause })).toEqual({
    ...{ events: [{ cause: 'unreachable: GET /health answered 500' }] },
    stateCause: 'unreachable: GET /health answered 500',
  })
})

it('leaves out the output and the refusals of a server in the evidence of its events', () => {
  const evidence = { exitCode: 1, signal: null, lastLines: [secret], livedMs: 5 }
  const events = [
    { cause: 'the process ended with code 1', evidence },
    { cause: 'could not be reached', evidence: { message: secret, refused: secret } },
    {
      cause: 'GET /health answered 302, a redirect to http://10.0.0.7/login?token=secret',
      evidence: { why: `POST /sleep answered 500: ${secret}`, canary: `answered 400: ${secret}` },
    },
  ]
  expect(failuresFor({ role: 'admin' }, { events })).toEqual({ events })
  expect(failuresFor({ role: 'trainer' }, { events })).toEqual({
    events: [
      {
        cause: 'the process ended with code 1',
        evidence: { exitCode: 1, signal: null, livedMs: 5 },
      },
      { cause: 'could not be reached', evidence: null },
      {
        cause: 'GET /health answered 302, a redirect',
        evidence: { why: 'POST /sleep answered 500', canary: 'answered 400' },
      },
    ],
  })
})

it('keeps the error texts of the service and of functions', () => {
  for (const detail of ['refused the connection (ECONNREFUSED)', 'it threw boom: x', null]) {
    expect(failuresFor(null, { detail })).toEqual({ detail })
  }
})
