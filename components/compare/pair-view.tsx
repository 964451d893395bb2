'use client'

import { GitCompareArrows } from 'lucide-react'
import { type ComparePairDto, UNMATCHED_TEXT } from '../../server/contract/compare.ts'
import { formatCount, formatScore, formatSigned, plural } from '../format/numbers.ts'
import { Empty } from '../ui/empty.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { Section } from '../ui/section.tsx'
import type { CompareProps } from './compare-url.ts'
import { ComparedGroupsTable } from './compared-groups.tsx'
import { ComparedPanel } from './compared-panel.tsx'
import { ComparedSamples, useComparedSamples } from './compared-samples.tsx'
import { PairCharts } from './pair-charts.tsx'
import { PairSides } from './pair-sides.tsx'
import { AdvantageSigns, SourcesTable, StatisticsTable } from './pair-tables.tsx'
import { pairVerdict, shareText } from './pair-words.ts'

export function PairView({
  pair,
  isOld,
  url,
  onChange,
}: CompareProps & { pair: ComparePairDto; isOld: boolean }) {
  const list = useComparedSamples(pair, url, onChange)
  return (
    <div className="flex min-w-0">
      <div
        className={`@container min-w-0 flex-1 quick transition-opacity ${isOld ? 'opacity-60' : ''}`}
        data-compared={isOld ? 'old' : pair.isLive ? 'live' : 'final'}
      >
        <PairSides pair={pair} url={url} onChange={onChange} />
        {pair.n === 0 ? (
          <NothingShared pair={pair} />
        ) : (
          <>
            <Verdict pair={pair} />
            <PairFigures pair={pair} />
            <PairCharts pair={pair} onChange={onChange} />
            <div className="grid border-t @min-[900px]:grid-cols-2">
              <StatisticsTable pair={pair} />
              <div className="border-t @min-[900px]:border-t-0 @min-[900px]:border-l">
                <AdvantageSigns pair={pair} />
              </div>
            </div>
            {pair.sources.length > 1 && <SourcesTable pair={pair} />}
            <ComparedSamples list={list} pair={pair} url={url} onChange={onChange} />
            {pair.groups.n > 0 && <ComparedGroupsTable pair={pair} onChange={onChange} />}
          </>
        )}
        {(pair.unmatched.length > 0 || pair.prompts.n > 0) && <LeftOut pair={pair} />}
      </div>
      {url.open !== null && (
        <ComparedPanel
          key={`${url.open.first} ${url.open.second}`}
          open={url.open}
          row={list.openRow}
          onClose={() => onChange({ open: null })}
          onWalk={list.walk}
        />
      )}
    </div>
  )
}

function Verdict({ pair }: { pair: ComparePairDto }) {
  const { title, detail } = pairVerdict(pair)
  return (
    <div className="border-b px-5 py-4" aria-live="polite">
      <p className="text-md font-semibold text-pretty">
        {title}
        {pair.isLive && <span className="font-normal text-ink-3"> so far</span>}
      </p>
      {detail && <p className="mt-0.5 max-w-4xl text-ink-2 text-pretty">{detail}</p>}
    </div>
  )
}

function PairFigures({ pair }: { pair: ComparePairDto }) {
  const { groups } = pair
  const leftOut = pair.unmatched.reduce((sum, { samples }) => sum + samples, 0)
  return (
    <FigureStrip label="Comparison figures">
      <Figure
        label="Samples compared"
        value={formatCount(pair.n)}
        detail={leftOut === 0 ? 'None unmatched' : `${formatCount(leftOut)} unmatched`}
      />
      <Figure
        label="Mean, second − first"
        value={formatSigned(pair.delta.score.mean)}
        detail={`± ${formatScore(pair.delta.score.std)}`}
      />
      <Figure
        label="Spearman"
        value={formatScore(pair.spearman)}
        detail={`Pearson ${formatScore(pair.pearson)}`}
      />
      <Figure
        label="Kendall τ within groups"
        hint="Mean Kendall τ-b of the two rewards within groups."
        value={formatScore(groups.tau)}
        detail={`Mean of ${formatCount(groups.tauGroups)} of ${formatCount(groups.n)} groups`}
      />
      <Figure
        label="Discordant pairs"
        hint="Pairs of samples in a group that the two rewards rank in opposite order, as a share of pairs without ties."
        value={shareText(groups.reversed, groups.comparable)}
        detail={`${formatCount(groups.reversed)} of ${formatCount(groups.comparable)} pairs`}
      />
      <Figure
        label="Advantage sign flipped"
        hint="Samples whose GRPO advantage is positive under one reward and negative under the other."
        value={shareText(groups.signFlipped, groups.samples)}
        detail={`${formatCount(groups.signFlipped)} of ${formatCount(groups.samples)} samples`}
      />
    </FigureStrip>
  )
}

function LeftOut({ pair }: { pair: ComparePairDto }) {
  const { prompts } = pair
  return (
    <div className="grid border-t @min-[900px]:grid-cols-2">
      {pair.unmatched.length > 0 && (
        <Section
          title="Unmatched samples"
          note={plural(
            pair.unmatched.reduce((sum, { samples }) => sum + samples, 0),
            'sample',
          )}
        >
          <dl className="grid grid-cols-[72px_minmax(0,1fr)] gap-y-1 px-5 pb-5">
            {pair.unmatched
              .toSorted((a, b) => b.samples - a.samples)
              .map(({ reason, samples }) => (
                <div key={reason} className="contents">
                  <dt className="num pr-4 text-right font-medium">{formatCount(samples)}</dt>
                  <dd className="text-ink-2">{UNMATCHED_TEXT[reason]}</dd>
                </div>
              ))}
          </dl>
        </Section>
      )}
      {prompts.n > 0 && (
        <Section title="Same prompts" note={`n = ${formatCount(prompts.n)} prompts in both`}>
          <p className="num px-5 pb-5 text-ink-2">
            Mean per prompt: {formatScore(prompts.first)} first, {formatScore(prompts.second)}{' '}
            second; {formatSigned(prompts.delta)} difference
            {prompts.low !== null &&
              `, 95 % confidence interval ${formatSigned(prompts.low)} to ${formatSigned(prompts.high)} (paired by prompt)`}
            .
          </p>
        </Section>
      )}
    </div>
  )
}

function NothingShared({ pair }: { pair: ComparePairDto }) {
  if (pair.isLive) {
    return (
      <Empty icon={GitCompareArrows} title="No matched samples yet">
        The comparison appears once both batches have scored the same samples.
      </Empty>
    )
  }
  return (
    <Empty icon={GitCompareArrows} title="No matched samples">
      {pair.prompts.n > 0
        ? 'No sample was scored in both batches, but both have scores for some of the same prompts. The comparison by prompt is below.'
        : 'No sample was scored in both batches. To compare two rewards, rescore the rollouts of one batch with the other reward.'}
    </Empty>
  )
}
