'use client'

import { useState } from 'react'
import type { RunDto } from '../../server/contract/runs.ts'
import { writeSampleFilter } from '../../server/contract/sample-filter.ts'
import { countsOf } from '../batches/group-signal-text.ts'
import { countSteps } from '../charts/run.prepare.ts'
import { durationText, formatCount, formatScore, percentText } from '../format/numbers.ts'
import { promptsHref } from '../prompts/prompts-url.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { BatchStatusView } from '../ui/status.tsx'
import { isBinned } from './run-url.ts'

export function RunSteps({ run }: { run: RunDto }) {
  const [all, setAll] = useState(false)
  const isInBins = isBinned(run)
  const steps = (all && !isInBins ? run.steps : run.recent).toReversed()
  const count = countSteps(run.steps)
  return (
    <Section
      title="Steps"
      note={
        isInBins
          ? `Newest ${formatCount(steps.length)} of ${formatCount(count)}; zoom in to list others`
          : `${formatCount(count)}, newest first`
      }
      actions={
        <PageLink
          href={promptsHref(run.name, { split: run.split, view: 'steps' })}
          className={buttonClass('quiet', true)}
        >
          View prompts by step
        </PageLink>
      }
    >
      <Scroll label="Steps">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              'Step',
              'Batch',
              'Status',
              { end: 'Mean' },
              { end: 'Std' },
              { end: 'Samples' },
              { end: 'Failed' },
              { end: 'No-signal groups' },
              { end: 'Reward wait' },
              { end: 'Submitted' },
            ]}
          />
          <tbody>
            {steps.map((step) => {
              const signals = step.groupSignals && countsOf(step.groupSignals)
              return (
                <tr key={step.batchId}>
                  <td className="num font-medium">{formatCount(step.step)}</td>
                  <td>
                    <PageLink
                      href={`/batches/${step.batchId}`}
                      className="font-mono text-xs hover:underline"
                    >
                      {step.batchId}
                    </PageLink>
                  </td>
                  <td>
                    <BatchStatusView status={step.status} />
                  </td>
                  <td className="num end">{formatScore(step.mean)}</td>
                  <td className="num end">{formatScore(step.std)}</td>
                  <td className="num end">{formatCount(step.samples)}</td>
                  <td className={`num end ${step.failed > 0 ? 'text-bad' : 'text-ink-3'}`}>
                    {formatCount(step.failed)}
                  </td>
                  <td className="num end">
                    {signals === null || signals.groups === 0 ? (
                      '–'
                    ) : signals.nothing === 0 ? (
                      percentText(0)
                    ) : (
                      <PageLink
                        href={`/samples?${writeSampleFilter({ batch: step.batchId, groupSignal: 'no_signal' })}`}
                        className="hover:underline"
                      >
                        {percentText(signals.nothing / signals.groups)}
                      </PageLink>
                    )}
                  </td>
                  <td className="num end">{durationText(step.waitMs)}</td>
                  <td className="end text-ink-2">
                    <Ago at={step.submittedAt} />
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </Scroll>
      {!all && !isInBins && count > steps.length && (
        <div className="px-5 py-3">
          <Button small onClick={() => setAll(true)}>
            Show all {formatCount(count)} steps
          </Button>
        </div>
      )}
    </Section>
  )
}
