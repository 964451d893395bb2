'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { SlidersHorizontal } from 'lucide-react'
import { useState } from 'react'
import {
  MONITOR_DEFINITIONS,
  type MonitorName,
  type RunMonitorsDto,
} from '../../server/contract/monitors.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { thresholdsOf } from '../charts/monitor.prepare.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import { formatCount } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass, IconButton } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { MonitorStateView } from './monitor-state.tsx'
import { monitorHref, readingText, thresholdText } from './monitor-words.ts'
import { ThresholdSheet } from './threshold-sheet.tsx'

const SPARK_POINTS = 60

export function RunReadings({ run, split }: { run: string; split: 'train' | 'val' }) {
  const trpc = useTRPC()
  const [edited, setEdited] = useState<MonitorName | null>(null)
  const monitors = useQuery(
    trpc.monitors.run.queryOptions(
      { run, split, points: SPARK_POINTS },
      { meta: { topics: ['monitors'] }, placeholderData: keepPreviousData },
    ),
  )
  return (
    <Section
      title={
        <span className="flex min-w-0 items-center gap-2">
          <RunName run={run} />
          {split === 'val' && <span className="font-normal text-ink-3">Validation</span>}
        </span>
      }
      note={`Last ${SPARK_POINTS} batches, with the warning threshold`}
      corner={
        <PageLink
          href={monitorHref(run, split, 'length_correlation').replace(/#.*/, '#monitors')}
          className={buttonClass('plain', true)}
        >
          View charts
        </PageLink>
      }
    >
      <QueryView query={monitors} skeleton={<TableSkeleton columns={6} rows={9} />}>
        {(data) => <Readings data={data} onEdit={setEdited} />}
      </QueryView>
      <ThresholdSheet run={run} monitor={edited} onClose={() => setEdited(null)} />
    </Section>
  )
}

function Readings({ data, onEdit }: { data: RunMonitorsDto; onEdit(monitor: MonitorName): void }) {
  return (
    <Scroll label="Monitors of the run">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Monitor',
            'State',
            { end: 'Value' },
            'Last batches',
            { end: 'Warning' },
            { end: 'Alerting' },
            { end: 'n' },
            'Definition',
            { hidden: 'Thresholds' },
          ]}
        />
        <tbody>
          {data.monitors.map(({ setting, state, points }) => {
            const name = setting.monitor
            const { label, measures, countedUnit } = MONITOR_DEFINITIONS[name]
            const last = points.findLast(({ value }) => value !== null)
            const shown = points.slice(-SPARK_POINTS)
            return (
              <tr key={name} data-monitor={name}>
                <td className="font-medium">
                  <PageLink
                    href={monitorHref(data.run, data.split, name)}
                    className="hover:underline"
                  >
                    {label}
                  </PageLink>
                </td>
                <td>
                  <MonitorStateView state={state} />
                </td>
                <td className="num end" title={last?.detail ?? undefined}>
                  {readingText(name, last?.value)}
                </td>
                <td>
                  {last && (
                    <span className="block h-7 w-[140px]">
                      <Sparkline
                        readings={shown.map(({ value }) => value)}
                        slots={shown.length}
                        height={28}
                        color="var(--data-1)"
                        thresholds={thresholdsOf(setting, 'warning')}
                        label={`${label} over the last ${shown.length} batches, now ${readingText(name, last.value)}, warning ${thresholdText(name, setting.warning)}`}
                      />
                    </span>
                  )}
                </td>
                <td className="num end text-ink-2">{thresholdText(name, setting.warning)}</td>
                <td className="num end text-ink-2">{thresholdText(name, setting.alerting)}</td>
                <td className="num end whitespace-nowrap">
                  {last ? (
                    <>
                      {formatCount(last.n)} <span className="unit">{countedUnit}</span>
                    </>
                  ) : (
                    '–'
                  )}
                </td>
                <td className="min-w-64 py-1! text-xs leading-4! whitespace-normal! text-ink-2">
                  {capitalized(measures)}
                </td>
                <td className="end">
                  <IconButton
                    label={`Edit thresholds of ${label.toLowerCase()}`}
                    onClick={() => onEdit(name)}
                  >
                    <SlidersHorizontal size={14} aria-hidden />
                  </IconButton>
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </Scroll>
  )
}
