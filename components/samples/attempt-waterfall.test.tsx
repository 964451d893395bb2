import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import type { AttemptDto } from '../../server/contract/pages.ts'
import { AttemptWaterfall } from './attempt-waterfall.tsx'

const attempt = (fields: Partial<AttemptDto>): AttemptDto => ({
  ...{ attempt: 1, serverName: 'rm-1', workerId: null, startedAt: '2026-01-01T00:00:00.000Z' },
  ...{ queueMs: 0, backoffMs: 0, serviceMs: 100, outcome: 'fault', reason: null, statusCode: null },
  ...{ detail: null, ...fields },
})

test('each attempt names its server, result and worker, also if it succeeded', () => {
  const html = renderToStaticMarkup(
    <AttemptWaterfall
      sample={{
        ...{ submittedAt: '2026-01-01T00:00:00.000Z', queueMs: 0, scoreMs: 200 },
        ...{ status: 'scored', attempts: 2 },
        attemptLog: [
          attempt({ reason: 'bad_answer', statusCode: 502, detail: 'Bad gateway' }),
          attempt({ attempt: 2, serverName: null, outcome: 'scored', workerId: 'w3' }),
        ],
      }}
    />,
  )
  const words = html.replaceAll(/<[^>]*>/g, '\n').split(/\n+/)
  expect(words).toContain('rm-1 · bad_answer · HTTP 502')
  expect(words).toContain('Bad gateway')
  expect(words).toContain('No server · scored · on w3')
})
