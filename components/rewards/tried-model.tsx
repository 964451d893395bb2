import type { AttemptDto } from '../../server/contract/pages.ts'
import { plural } from '../format/numbers.ts'
import { JsonValue } from '../rollouts/raw-text.tsx'
import { AttemptWaterfall } from '../samples/attempt-waterfall.tsx'
import { ServerName } from '../servers/server-cells.tsx'
import { engineName } from '../servers/server-words.ts'
import { EndFailure, EndText, type Step, TraceItem } from './trace-item.tsx'

type ModelStep = Extract<Step, { kind: 'model' }>
type TriedCall = ModelStep['attempts'][number]

export function TriedModelStep({ step }: { step: ModelStep }) {
  const { model, serverName, request, promptTokens, tokenScores, attempts, end } = step
  return (
    <>
      <TraceItem title="Request" value={request?.path}>
        {request === null ? (
          <p className="text-ink-2">No request was sent.</p>
        ) : (
          <>
            <p className="mb-1.5 flex flex-wrap items-center gap-x-2 text-ink-2">
              {serverName === null ? 'Sent' : <ServerName name={serverName} />}
              <span className="text-xs text-ink-3">{engineName(request.engine)}</span>
            </p>
            <JsonValue value={asJson(request.body)} />
            {request.cut && <p className="mt-1 text-xs text-ink-3">Truncated.</p>}
          </>
        )}
      </TraceItem>
      <TraceItem title={`Model ${model}`} value={<EndText end={end} />}>
        {end.ok && (
          <p className="num text-ink-2">
            Raw model score
            {promptTokens !== null && `, ${plural(promptTokens, 'token')}`}
            {tokenScores !== null && `, last of ${plural(tokenScores.length, 'token score')}`}.
          </p>
        )}
        <EndFailure end={end} />
        <Calls calls={attempts} />
      </TraceItem>
    </>
  )
}

function asJson(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return body
  }
}

export function Calls({ calls }: { calls: readonly TriedCall[] }) {
  if (calls.length === 0) return null
  const attemptLog = calls.map(
    ({ startedMs, ...call }): AttemptDto => ({
      ...call,
      workerId: null,
      startedAt: new Date(startedMs).toISOString(),
    }),
  )
  return (
    <div className="mt-2.5">
      <AttemptWaterfall
        sample={{
          submittedAt: new Date(0).toISOString(),
          queueMs: null,
          scoreMs: null,
          status: 'scored',
          attempts: 1,
          attemptLog,
        }}
      />
    </div>
  )
}
