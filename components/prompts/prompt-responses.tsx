'use client'

import { useQuery } from '@tanstack/react-query'
import { GitCompareArrows, X } from 'lucide-react'
import { useState } from 'react'
import type { SampleRowDto } from '../../server/contract/pages.ts'
import { writeSampleFilter } from '../../server/contract/sample-filter.ts'
import { useTRPC } from '../api/trpc.ts'
import { WhenSeen } from '../charts/lazy-plot.tsx'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { ResponseText } from '../rollouts/response-text.tsx'
import { ScoreCell } from '../samples/sample-columns.tsx'
import { sideBySideHref } from '../samples/side-by-side/side-by-side-url.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass, IconButton } from '../ui/button.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton, Skeleton } from '../ui/skeleton.tsx'
import type { ListedVisit } from './prompt-page.tsx'
import { responsesOf } from './prompt-responses.prepare.ts'

const INITIAL_RESPONSES = 8
const MAX_RESPONSES = 200

export function PromptResponses({
  visit,
  beside,
  onClose,
}: {
  visit: ListedVisit | null
  beside: ListedVisit | null
  onClose(): void
}) {
  if (visit === null) {
    return (
      <Section title="Responses">
        <p className="px-5 pb-4 text-ink-3">Retention removed the samples of all visits.</p>
      </Section>
    )
  }
  if (beside === null || beside.id === visit.id) return <Visit key={visit.id} visit={visit} />
  const [first, second] = beside.step < visit.step ? [beside, visit] : [visit, beside]
  return (
    <div className="grid md:grid-cols-2">
      <div className="min-w-0 max-md:border-b md:border-r">
        <Visit key={first.id} visit={first} isHalf {...(first === beside && { onClose })} />
      </div>
      <div className="min-w-0">
        <Visit key={second.id} visit={second} isHalf {...(second === beside && { onClose })} />
      </div>
    </div>
  )
}

function Visit({
  visit,
  isHalf = false,
  onClose,
}: {
  visit: ListedVisit
  isHalf?: boolean
  onClose?: () => void
}) {
  const trpc = useTRPC()
  const [all, setAll] = useState(false)
  const { batchId, uid } = visit
  const samples = useQuery(
    trpc.samples.list.queryOptions(
      // The samples are not sorted by score, because a list sorted by score leaves out failed samples.
      { batch: batchId, uid: uid ?? undefined, limit: MAX_RESPONSES },
      { enabled: uid !== null, meta: { topics: [`batch:${batchId}`] } },
    ),
  )
  const isPart = samples.data ? samples.data.nextCursor !== null : false
  const endOf = (sort: 'best' | 'worst') =>
    trpc.samples.list.queryOptions(
      { batch: batchId, uid: uid ?? undefined, substituted: false, sort, limit: 1 },
      { enabled: isPart, meta: { topics: [`batch:${batchId}`] } },
    )
  const highest = useQuery(endOf('best'))
  const lowest = useQuery(endOf('worst'))
  const ends = isPart
    ? highest.data && lowest.data
      ? [...highest.data.items, ...lowest.data.items]
      : null
    : []
  const responses = samples.data ? responsesOf(samples.data.items, ends) : null
  const shown = responses?.listed.slice(0, all ? undefined : INITIAL_RESPONSES) ?? []
  return (
    <Section
      title={`Responses at step ${formatCount(visit.step)}`}
      note={
        visit.passed === null
          ? `mean ${formatScore(visit.mean)}, n = ${formatCount(visit.scored)}`
          : `${formatCount(visit.passed)} of ${formatCount(visit.scored)} passed`
      }
      actions={
        <>
          {responses?.best && responses.worst && (
            <PageLink
              href={sideBySideHref(responses.best.id, responses.worst.id)}
              className={buttonClass('quiet', true)}
            >
              <GitCompareArrows size={13} aria-hidden />
              Compare best and worst
            </PageLink>
          )}
          {uid !== null && (
            <PageLink
              href={`/samples?${writeSampleFilter({ batch: batchId, uid })}`}
              className={buttonClass('quiet', true)}
            >
              Samples
            </PageLink>
          )}
        </>
      }
      {...(onClose && {
        corner: (
          <IconButton label={`Close step ${visit.step} responses`} onClick={onClose}>
            <X size={15} aria-hidden />
          </IconButton>
        ),
      })}
    >
      {uid === null ? (
        <p className="px-5 pb-4 text-ink-3">Retention removed the samples of this visit.</p>
      ) : (
        <QueryView query={samples} skeleton={<ChartSkeleton height={220} />}>
          {() =>
            responses === null || responses.listed.length === 0 ? (
              <p className="px-5 pb-4 text-ink-3">Retention removed the samples of this visit.</p>
            ) : (
              <>
                <ul
                  className={`grid gap-3 px-5 pb-4 ${isHalf ? '' : 'sm:grid-cols-2 xl:grid-cols-4'}`}
                >
                  {shown.map((sample) => (
                    <li key={sample.id} className="min-w-0">
                      <Response
                        sample={sample}
                        mark={
                          sample === responses.best
                            ? 'Best'
                            : sample === responses.worst
                              ? 'Worst'
                              : null
                        }
                      />
                    </li>
                  ))}
                </ul>
                {responses.listed.length > shown.length && (
                  <div className="px-5 pb-4">
                    <Button small onClick={() => setAll(true)}>
                      Show {isPart ? '' : 'all '}
                      {plural(responses.listed.length, 'response')}
                    </Button>
                  </div>
                )}
                {all && isPart && (
                  <p className="px-5 pb-4 text-xs text-ink-3">
                    The group has more responses. The list of samples shows them all.
                  </p>
                )}
              </>
            )
          }
        </QueryView>
      )}
    </Section>
  )
}

function Response({ sample, mark }: { sample: SampleRowDto; mark: 'Best' | 'Worst' | null }) {
  return (
    <article
      aria-label={`Sample ${sample.id}`}
      data-response={sample.id}
      className={`flex h-full flex-col rounded-md border ${mark === null ? '' : 'border-line-strong'}`}
    >
      <header className="num flex items-center gap-2 border-b px-3 py-1.5 text-xs">
        <PageLink
          href={`/samples?${writeSampleFilter({ batch: sample.batchId, uid: sample.uid })}&sample=${sample.id}`}
          className="font-mono text-ink-2 hover:underline"
        >
          {sample.id}
        </PageLink>
        {mark !== null && (
          <span
            className={`rounded-sm px-1.5 text-2xs leading-[18px] ${mark === 'Best' ? 'bg-ok-soft text-ok' : 'bg-bad-soft text-bad'}`}
          >
            {mark}
          </span>
        )}
        <span className="ml-auto text-sm">
          {sample.status === 'failed' ? (
            <span className="inline-flex items-center gap-1.5 text-xs text-bad">
              <span className="hatch size-2.5 rounded-[2px]" aria-hidden />
              {sample.reason ?? 'Failed'}
            </span>
          ) : (
            <ScoreCell row={sample} />
          )}
        </span>
      </header>
      <dl className="num grid grid-cols-[64px_minmax(0,1fr)] gap-x-2 px-3 pt-1.5 text-xs">
        <dt className="text-ink-3">Verdict</dt>
        <dd className="truncate" title={sample.verdict ?? undefined}>
          {sample.verdict ?? '–'}
        </dd>
        <dt className="text-ink-3">Extracted</dt>
        <dd className="truncate font-mono" title={sample.extracted ?? undefined}>
          {sample.extracted ?? '–'}
        </dd>
      </dl>
      <div className="px-3 pt-2 pb-3">
        <WhenSeen waiting={<TextSkeleton />}>
          <Text id={sample.id} />
        </WhenSeen>
      </div>
    </article>
  )
}

function Text({ id }: { id: string }) {
  const trpc = useTRPC()
  const sample = useQuery(
    trpc.samples.get.queryOptions(
      { id, imagesByHash: true },
      { staleTime: Number.POSITIVE_INFINITY },
    ),
  )
  return (
    <QueryView query={sample} compact skeleton={<TextSkeleton />}>
      {({ textsRemovedAt, response }) =>
        textsRemovedAt === null ? (
          <Scroll label="Response text" className="max-h-72 overflow-y-auto">
            <ResponseText text={response} />
          </Scroll>
        ) : (
          <p className="text-xs text-ink-3">Retention removed the text.</p>
        )
      }
    </QueryView>
  )
}

function TextSkeleton() {
  return (
    <div className="h-19">
      <Skeleton height={76} />
    </div>
  )
}
