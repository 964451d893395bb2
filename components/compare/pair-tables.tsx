'use client'

import { correlationWord, kappaWord } from '../../server/contract/agreement.ts'
import type { ComparePairDto } from '../../server/contract/compare.ts'
import { formatCount, formatScore, formatSigned, percentText } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { kappaText, shareText } from './pair-words.ts'

export function StatisticsTable({ pair }: { pair: ComparePairDto }) {
  const { groups, classes } = pair
  const rows: [what: string, value: string, note: string][] = [
    ['Pearson', formatScore(pair.pearson), wordOf(correlationWord(pair.pearson))],
    ['Spearman', formatScore(pair.spearman), wordOf(correlationWord(pair.spearman))],
    ...(classes === null
      ? []
      : ([
          ['Equal scores', percentText(classes.equal), `of ${formatCount(pair.n)} samples`],
          ['Cohen’s κ', kappaText(classes.kappa), wordOf(kappaWord(classes.kappa))],
        ] as [string, string, string][])),
    [
      'Kendall τ-b within groups',
      formatScore(groups.tau),
      `Mean of ${formatCount(groups.tauGroups)} of ${formatCount(groups.n)} groups; the others have equal scores under one reward`,
    ],
    [
      'Discordant pairs',
      shareText(groups.reversed, groups.comparable),
      `${formatCount(groups.reversed)} of ${formatCount(groups.comparable)} pairs without ties`,
    ],
    [
      'Tied pairs',
      `${formatCount(groups.tiedFirst)} · ${formatCount(groups.tiedSecond)}`,
      `First · second; ${formatCount(groups.tiedBoth)} of them in both`,
    ],
    [
      'Best sample differs',
      shareText(groups.bestChanged, groups.n),
      `In ${formatCount(groups.bestChanged)} of ${formatCount(groups.n)} groups, no sample is best under both`,
    ],
    [
      'No-signal groups',
      `${formatCount(groups.noSignalFirst)} · ${formatCount(groups.noSignalSecond)}`,
      `First · second; signal lost in ${formatCount(groups.noSignalSecond - groups.noSignalBoth)}, gained in ${formatCount(groups.noSignalFirst - groups.noSignalBoth)}`,
    ],
  ]
  return (
    <Section title="Agreement" note={`n = ${formatCount(pair.n)}`}>
      <Scroll label="Agreement">
        <table className="grid-table">
          <tbody>
            {rows.map(([what, value, note]) => (
              <tr key={what}>
                <th
                  scope="row"
                  className="!static !h-9 !text-[13px] !text-ink-2 font-normal whitespace-nowrap"
                >
                  {what}
                </th>
                <td className="num end font-medium">{value}</td>
                <td className="num min-w-52 !py-1.5 !leading-4 !whitespace-normal text-xs text-ink-3">
                  {note}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}

function wordOf(word: string | null): string {
  return capitalized(word ?? 'not defined')
}

const SIGNS = ['Negative', 'Zero', 'Positive'] as const

export function AdvantageSigns({ pair }: { pair: ComparePairDto }) {
  const { signs, samples } = pair.groups
  const most = Math.max(1, ...signs.flat())
  return (
    <Section
      title="Advantage sign"
      note={`GRPO, n = ${formatCount(samples)} in ${formatCount(pair.groups.n)} groups`}
    >
      {samples === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          No group has two samples scored by both rewards, so there is no within-group comparison.
        </p>
      ) : (
        <Scroll label="Advantage sign" className="overflow-x-auto px-5 pb-5">
          <table className="num w-full max-w-lg border-separate border-spacing-1 text-[13px]">
            <thead>
              <tr className="text-xs text-ink-3">
                <th scope="col" className="px-2 py-1 text-left font-normal">
                  First ↓ second →
                </th>
                {SIGNS.map((sign) => (
                  <th key={sign} scope="col" className="px-2 py-1 text-right font-normal">
                    {sign}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {SIGNS.map((sign, row) => (
                <tr key={sign}>
                  <th scope="row" className="px-2 py-1 text-left text-xs font-normal text-ink-3">
                    {sign}
                  </th>
                  {SIGNS.map((other, column) => {
                    const n = signs[row]?.[column] ?? 0
                    const isOpposite = Math.abs(row - column) === 2
                    return (
                      <td
                        key={other}
                        className="h-11 rounded px-2.5 text-right"
                        style={{
                          background: `color-mix(in oklab, ${isOpposite ? 'var(--bad)' : 'var(--data-1)'} ${n === 0 ? 3 : Math.round(8 + 34 * Math.sqrt(n / most))}%, transparent)`,
                        }}
                      >
                        <span className={isOpposite && n > 0 ? 'font-semibold' : 'font-medium'}>
                          {formatCount(n)}
                        </span>
                        <span className="block text-2xs">{shareText(n, samples)}</span>
                      </td>
                    )
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Section>
  )
}

export function SourcesTable({ pair }: { pair: ComparePairDto }) {
  return (
    <Section title="By data source" note={formatCount(pair.sources.length)} className="border-t">
      <Scroll label="By data source">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              'Data source',
              { end: 'n' },
              { end: 'First' },
              { end: 'Second' },
              { end: 'Difference' },
              { end: 'τ' },
              { end: 'Groups' },
              { end: 'Discordant pairs' },
            ]}
          />
          <tbody>
            {pair.sources.map((source) => (
              <tr key={source.name}>
                <td className="font-medium">{source.name}</td>
                <td className="num end">{formatCount(source.n)}</td>
                <td className="num end">{formatScore(source.first)}</td>
                <td className="num end">{formatScore(source.second)}</td>
                <td className="num end">
                  {source.first === null || source.second === null
                    ? '–'
                    : formatSigned(source.second - source.first)}
                </td>
                <td className="num end">{formatScore(source.tau)}</td>
                <td className="num end">{formatCount(source.tauGroups)}</td>
                <td className="num end">{shareText(source.reversed, source.comparable)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}
