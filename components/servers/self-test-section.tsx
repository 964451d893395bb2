'use client'

import { useQuery } from '@tanstack/react-query'
import { isOverridable, isTrusted } from '../../server/contract/self-test-verdict.ts'
import type { ServerDetailDto } from '../../server/contract/server-detail.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatScore } from '../format/numbers.ts'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { VerdictView } from '../ui/status.tsx'
import { SelfTestFacts } from './self-test-facts.tsx'
import type { ServerActions } from './server-actions.tsx'
import { ServerName } from './server-cells.tsx'

export function SelfTestSection({
  server,
  actions,
}: {
  server: ServerDetailDto
  actions: ServerActions
}) {
  const { selfTest } = server
  const untrusted =
    selfTest !== null && !isTrusted(selfTest.verdict) && isOverridable(selfTest.verdict)
  return (
    <Section
      title="Self-test"
      note={
        server.kind === 'discriminative'
          ? 'Checks that scores are raw and cover the whole text'
          : undefined
      }
      actions={
        untrusted &&
        !selfTest.overridden && (
          <Button small refused={actions.refused} onClick={() => actions.confirm('trust')}>
            Trust anyway…
          </Button>
        )
      }
    >
      <div className="space-y-4 px-5 pb-5">
        <SelfTestFacts test={selfTest} />
        {server.kind === 'discriminative' && server.engine !== 'http' && (
          <p className="text-xs text-ink-3">
            The self-test sends four different texts, two of them with digits and code. Their scores
            must differ. It also requests activated scores for a correct and an incorrect answer,
            where the engine supports them, and scores long texts that differ only in their last
            sentence. The correct answer and the text with code are the calibration texts: all
            servers of a model must agree on their scores within 5 %, and all servers of one engine
            also on their prompt token counts.
          </p>
        )}
      </div>
      {selfTest !== null && selfTest.calibration !== null && server.pool.length > 1 && (
        <PoolCalibration server={server} own={selfTest.calibration} />
      )}
    </Section>
  )
}

function PoolCalibration({ server, own }: { server: ServerDetailDto; own: number }) {
  const trpc = useTRPC()
  const servers = useQuery(
    trpc.servers.list.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const pool = (servers.data ?? []).filter((other) => other.model === server.model)
  if (pool.length === 0) return null
  return (
    <Scroll label="Pool calibration">
      <table className="grid-table">
        <ColumnHeads columns={['Server', { end: 'Score' }, { end: 'Difference' }, 'Verdict']} />
        <tbody>
          {pool.map((other) => {
            const score = other.selfTest?.calibration ?? null
            const away = score === null ? null : score - own
            return (
              <tr key={other.id}>
                <td className="max-w-44">
                  <ServerName name={other.name} id={other.id} link={other.id !== server.id} />
                </td>
                <td className="num end">{formatScore(score)}</td>
                <td className="num end text-ink-2">
                  {other.id === server.id || away === null
                    ? '–'
                    : `${away > 0 ? '+' : ''}${formatScore(away)}`}
                </td>
                <td>
                  {other.selfTest ? (
                    <VerdictView verdict={other.selfTest.verdict} detail={other.selfTest.detail} />
                  ) : (
                    '–'
                  )}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </Scroll>
  )
}
