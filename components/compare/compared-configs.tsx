'use client'

import { useQueries } from '@tanstack/react-query'
import { useMemo } from 'react'
import { type ConfigValue, compareConfigs } from '../../server/contract/run-config.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount } from '../format/numbers.ts'
import { configText } from '../runs/run-cells.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Segmented } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import type { CompareProps } from './compare-url.ts'

export function ComparedConfigs({
  runs,
  url,
  onChange,
}: CompareProps & { runs: readonly string[] }) {
  const trpc = useTRPC()
  const found = useQueries({
    queries: runs.map((run) =>
      trpc.runs.config.queryOptions({ run }, { meta: { topics: ['runs'] } }),
    ),
    combine: (queries) => queries.flatMap(({ data }) => (data === undefined ? [] : [data])),
  })
  const configured = useMemo(
    () => found.flatMap(({ run, config }) => (config === null ? [] : [{ run, config }])),
    [found],
  )
  const values = useMemo(() => compareConfigs(configured.map(({ config }) => config)), [configured])
  if (found.length < runs.length || configured.length < 2) return null
  const different = values.filter(({ isDifferent }) => isDifferent)
  const shown = url.allConfig ? values : different
  const without = found.filter(({ config }) => config === null).map(({ run }) => run)
  return (
    <Section
      className="border-t"
      title="Configuration"
      note={[
        `${formatCount(different.length)} of ${formatCount(values.length)} values differ`,
        ...(without.length > 0 ? [`no configuration for ${without.join(', ')}`] : []),
      ].join(' · ')}
      actions={
        <Segmented
          label="Values"
          value={url.allConfig ? 'all' : 'different'}
          options={[
            { value: 'different', label: 'Different' },
            { value: 'all', label: 'All' },
          ]}
          onChange={(which) => onChange({ allConfig: which === 'all' })}
        />
      }
    >
      {shown.length > 0 && (
        <Scroll label="Configuration">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Value',
                ...configured.map(({ run }) => ({
                  start: <RunName run={run} />,
                })),
              ]}
            />
            <tbody>
              {shown.map(({ path, values: ofRuns, isDifferent }) => (
                <tr key={path}>
                  <th scope="row" className="h-auto! py-2 align-top font-mono text-2xs!">
                    {path}
                  </th>
                  {ofRuns.map((value, at) => (
                    <td
                      key={configured[at]?.run}
                      className={`num h-auto! max-w-96 py-2 align-top wrap-anywhere whitespace-normal! ${isDifferent ? '' : 'text-ink-3'}`}
                    >
                      {valueText(value)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Section>
  )
}

function valueText(value: ConfigValue | undefined): string {
  return value === undefined ? '–' : configText(value)
}
