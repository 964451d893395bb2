'use client'

import { Columns2, Eye } from 'lucide-react'
import { useState } from 'react'
import { MAX_VISITS } from '../../server/contract/prompts.ts'
import { BatchLink } from '../batches/batch-cells.tsx'
import { formatCount, formatScore, newestText, percentText } from '../format/numbers.ts'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import type { ListedVisit } from './prompt-page.tsx'

const INITIAL_VISITS = 12

export function PromptVisits({
  visits,
  shown,
  beside,
  onShow,
  onBeside,
}: {
  visits: readonly ListedVisit[]
  shown: string | null
  beside: string | null
  onShow(id: string): void
  onBeside(id: string | null): void
}) {
  const [all, setAll] = useState(false)
  const listed = visits.toReversed().slice(0, all ? undefined : INITIAL_VISITS)
  const hasPasses = visits.some(({ passed }) => passed !== null)
  return (
    <Section
      title="Visits"
      note={newestText(visits.length, visits.length >= MAX_VISITS)}
      className="border-t"
    >
      <Scroll label="Visits">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              'Step',
              'Batch',
              ...(hasPasses
                ? [{ end: 'Passed' }, { hidden: 'Pass rate', className: 'max-sm:hidden' }]
                : []),
              'Responses',
              { end: 'Mean' },
              { end: 'Std' },
              { end: 'Scored samples' },
            ]}
          />
          <tbody>
            {listed.map((visit) => (
              <tr
                key={visit.id}
                data-visit={visit.id}
                className={visit.id === shown || visit.id === beside ? 'bg-selected' : ''}
              >
                <td className="num font-medium">{formatCount(visit.step)}</td>
                <td>
                  <BatchLink batchId={visit.batchId} />
                </td>
                {hasPasses && (
                  <>
                    <td className="num end">
                      {visit.passed === null
                        ? '–'
                        : `${formatCount(visit.passed)} of ${formatCount(visit.scored)}`}
                    </td>
                    <td className="w-36 max-sm:hidden">
                      {visit.passed !== null && (
                        <SegmentBar
                          role="img"
                          aria-label={percentText(visit.passed / visit.scored)}
                          segments={[
                            {
                              key: 'passed',
                              share: visit.passed / visit.scored,
                              color: 'var(--data-3)',
                            },
                          ]}
                        />
                      )}
                    </td>
                  </>
                )}
                <td>
                  {visit.uid === null ? (
                    <span className="text-xs text-ink-3">Removed by retention</span>
                  ) : (
                    <span className="flex gap-1">
                      <Button
                        small
                        variant="quiet"
                        aria-pressed={visit.id === shown}
                        aria-label={`Show step ${visit.step} responses`}
                        className="aria-pressed:text-accent!"
                        onClick={() => onShow(visit.id)}
                      >
                        <Eye size={13} aria-hidden />
                        Show
                      </Button>
                      <Button
                        small
                        variant="quiet"
                        aria-pressed={visit.id === beside}
                        aria-label={`Compare step ${visit.step} responses`}
                        disabled={visit.id === shown}
                        className="aria-pressed:text-accent!"
                        onClick={() => onBeside(visit.id === beside ? null : visit.id)}
                      >
                        <Columns2 size={13} aria-hidden />
                        Compare
                      </Button>
                    </span>
                  )}
                </td>
                <td className="num end">{formatScore(visit.mean)}</td>
                <td className="num end text-ink-2">{formatScore(visit.std)}</td>
                <td className="num end">{formatCount(visit.scored)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {!all && visits.length > INITIAL_VISITS && (
        <div className="px-5 py-3">
          <Button small onClick={() => setAll(true)}>
            Show all {formatCount(visits.length)} visits
          </Button>
        </div>
      )}
    </Section>
  )
}
