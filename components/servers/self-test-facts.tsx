import type { SelfTestDto } from '../../server/contract/servers.ts'
import { formatScore } from '../format/numbers.ts'
import { Ago } from '../ui/ago.tsx'
import { VerdictView } from '../ui/status.tsx'
import { VERDICT_MEANING } from './server-words.ts'

export function SelfTestFacts({ test }: { test: SelfTestDto | null }) {
  if (test === null) return <p className="text-ink-2">No self-test result yet.</p>
  return (
    <div>
      <p className="flex flex-wrap items-center gap-x-3">
        <VerdictView verdict={test.verdict} />
        {test.overridden && <span className="text-warn">Trusted anyway</span>}
        <span className="text-xs text-ink-3">
          <Ago at={test.at} />
        </span>
      </p>
      <p className="mt-1 text-ink-2">{VERDICT_MEANING[test.verdict]}</p>
      {test.detail && test.detail !== VERDICT_MEANING[test.verdict] && (
        <p className="mt-1 break-words text-ink-2">{test.detail}</p>
      )}
      {(test.raw !== null || test.activated !== null) && (
        <dl className="num mt-3 grid max-w-sm grid-cols-[auto_1fr] gap-x-6 gap-y-1">
          <dt className="text-ink-3">Correct answer, raw</dt>
          <dd className="text-right">{formatScore(test.raw)}</dd>
          <dt className="text-ink-3">Correct answer, activated</dt>
          <dd className="text-right">
            {test.activated === null ? (
              <span className="text-ink-3">Not returned</span>
            ) : (
              formatScore(test.activated)
            )}
          </dd>
          <dt className="text-ink-3">Calibration score</dt>
          <dd className="text-right">{formatScore(test.calibration)}</dd>
        </dl>
      )}
    </div>
  )
}
