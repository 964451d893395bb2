'use client'

import { ArrowRight, ChevronRight } from 'lucide-react'
import { Fragment, useMemo, useState } from 'react'
import type { ServerDetailDto, ServerEventDto } from '../../server/contract/server-detail.ts'
import { prepareStateBand, type StateBandData } from '../charts/state-band.prepare.ts'
import { durationText, formatCount, plural } from '../format/numbers.ts'
import { clockTime, dateTime } from '../format/time.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Segmented } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { stateLook, type Tone } from '../ui/status.tsx'
import { type EvidenceRow, prepareEvidence } from './evidence.prepare.ts'

export type EventKind = 'all' | ServerEventDto['kind']

const SHOWN_FIRST = 12

const FILL: Record<Tone, string> = {
  ok: 'bg-ok opacity-60',
  run: 'bg-accent',
  warn: 'bg-warn',
  bad: 'hatch',
  idle: 'bg-ink-3 opacity-45',
}
const INK: Record<Tone, string> = {
  ok: 'text-ok',
  run: 'text-accent',
  warn: 'text-warn',
  bad: 'text-bad',
  idle: 'text-ink-2',
}

export function ServerHistory({
  server,
  nowMs,
  kind,
  onKind,
}: {
  server: ServerDetailDto
  nowMs: number
  kind: EventKind
  onKind(kind: EventKind): void
}) {
  const [all, setAll] = useState(false)
  const { events, hasMoreEvents, state, stateSince } = server
  const newest = `newest ${formatCount(events.length)} events`
  // The current time is rounded to 10 s, so that the band is not laid out every second.
  const to10s = Math.ceil(nowMs / 10_000) * 10_000
  const band = useMemo(
    () => prepareStateBand(events, { state, sinceMs: Date.parse(stateSince) }, to10s),
    [events, state, stateSince, to10s],
  )
  const listed = events
    .filter((event) => kind === 'all' || event.kind === kind)
    // Health events are reported up to a second late, so events are sorted by time.
    .sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.id - a.id)
  const shown = all ? listed : listed.slice(0, SHOWN_FIRST)
  return (
    <Section
      title="History"
      note={hasMoreEvents ? newest : plural(events.length, 'event')}
      className="border-t"
      actions={
        <Segmented
          label="Event type"
          value={kind}
          onChange={onKind}
          options={[
            { value: 'all', label: 'All' },
            { value: 'state', label: 'State' },
            { value: 'health', label: 'Health' },
            { value: 'process', label: 'Process' },
          ]}
        />
      }
    >
      {nowMs > 0 && <StateBand band={band} />}
      {listed.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          {NOTHING[kind]}
          {hasMoreEvents && ` among the ${newest}`}.
        </p>
      ) : (
        <Scroll label="History">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Time',
                { start: 'Type', className: 'max-sm:hidden' },
                { start: 'From', className: 'max-sm:hidden' },
                'To',
                { start: 'Cause', className: 'w-full' },
              ]}
            />
            <tbody>
              {shown.map((event) => (
                <EventRow key={event.id} event={event} nowMs={nowMs} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {listed.length > shown.length && (
        <div className="px-5 py-3">
          <Button small variant="quiet" onClick={() => setAll(true)}>
            Show all {formatCount(listed.length)} events
          </Button>
        </div>
      )}
    </Section>
  )
}

const NOTHING: Record<EventKind, string> = {
  all: 'No events',
  state: 'No state changes',
  health: 'No health changes',
  process: 'No process events',
}

const KINDS: Record<ServerEventDto['kind'], string> = {
  state: 'State',
  health: 'Health',
  process: 'Process',
}

function momentText(atMs: number, nowMs: number): string {
  return nowMs - atMs < 43_200_000 ? clockTime(atMs) : dateTime(atMs).slice(5)
}

function EventRow({ event, nowMs }: { event: ServerEventDto; nowMs: number }) {
  const [open, setOpen] = useState(false)
  // The Type column already shows the process that observed a health event.
  const { process, ...seen } = event.evidence ?? {}
  const evidence = prepareEvidence(event.kind === 'health' ? seen : event.evidence)
  return (
    <Fragment>
      <tr data-event={event.to} className={open ? '[&>td]:border-b-0' : undefined}>
        <td className="text-ink-2" title={dateTime(Date.parse(event.at))}>
          <span className="num">{momentText(Date.parse(event.at), nowMs)}</span>{' '}
          <span className="text-xs text-ink-3">
            <Ago at={event.at} />
          </span>
        </td>
        <td className="text-ink-2 max-sm:hidden">
          {KINDS[event.kind]}
          {event.kind === 'health' && typeof process === 'string' && (
            <span className="unit">
              {' '}
              {process === 'server' ? 'in the server process' : `in ${process}`}
            </span>
          )}
        </td>
        <td className="max-sm:hidden">{event.from && <StateWord state={event.from} quiet />}</td>
        <td>
          <span className="inline-flex items-center gap-1.5">
            {event.from && (
              <ArrowRight size={12} className="-ml-4 text-ink-3 max-sm:hidden" aria-label="to" />
            )}
            <StateWord state={event.to} />
          </span>
        </td>
        <td className="max-w-[72ch] min-w-44 py-1.5 sm:min-w-64 whitespace-normal!">
          {evidence.length === 0 ? (
            event.cause
          ) : (
            <button
              type="button"
              aria-expanded={open}
              onClick={() => setOpen(!open)}
              className="flex items-start gap-1 text-left hover:underline"
            >
              <ChevronRight
                size={14}
                className={`mt-[3px] shrink-0 text-ink-3 quick transition-transform ${open ? 'rotate-90' : ''}`}
                aria-hidden
              />
              <span className="break-words">{event.cause || 'Evidence'}</span>
            </button>
          )}
        </td>
      </tr>
      {open && (
        <tr>
          <td colSpan={4} className="h-auto! max-sm:hidden" />
          <td colSpan={2} className="h-auto! sm:hidden" />
          <td className="h-auto! pb-3 whitespace-normal!">
            <Evidence rows={evidence} />
          </td>
        </tr>
      )}
    </Fragment>
  )
}

function StateWord({ state, quiet }: { state: string; quiet?: boolean }) {
  const { text, tone } = stateLook(state)
  return <span className={quiet ? 'text-ink-3' : INK[tone]}>{text.split(',')[0]}</span>
}

function Evidence({ rows }: { rows: readonly EvidenceRow[] }) {
  return (
    <dl className="grid max-w-[72ch] grid-cols-[auto_minmax(0,1fr)] gap-x-5 gap-y-0.5 pl-5 text-xs">
      {rows.map(({ label, value, lines }) => (
        <Fragment key={label}>
          <dt className="text-ink-3">{label}</dt>
          <dd className="num break-words">
            {lines ? (
              <pre className="overflow-x-auto rounded border bg-sunken p-2 font-mono text-2xs whitespace-pre-wrap">
                {lines.join('\n')}
              </pre>
            ) : (
              value
            )}
          </dd>
        </Fragment>
      ))}
    </dl>
  )
}

/**
 * The states as colored ranges, with changes of health and process as markers below. The list of events contains the
 * same data as a table.
 */
function StateBand({ band }: { band: StateBandData }) {
  const longest = band.segments.filter((segment) => segment.to - segment.from > 0.08)
  return (
    <div className="px-5 pb-3">
      <SegmentBar
        role="img"
        aria-label={`States, ${band.span.toLowerCase()}: ${band.segments
          .map(
            ({ state, sinceMs, untilMs }) =>
              `${stateLook(state).text} for ${durationText(untilMs - sinceMs)}`,
          )
          .join(', ')}`}
        className="h-4"
        segments={band.segments.map(({ state, from, to, sinceMs, untilMs }) => ({
          ...{ key: `${state}${sinceMs}`, from, share: Math.max(to - from, 1e-6) },
          title: `${stateLook(state).text}, ${durationText(untilMs - sinceMs)} from ${dateTime(sinceMs)}`,
          className: FILL[stateLook(state).tone],
        }))}
      />
      {band.marks.length > 0 && (
        <SegmentBar
          className="mt-0.5 h-2 bg-transparent"
          segments={band.marks.map(({ id, at, to }) => ({
            ...{ key: id, from: at, share: 1e-6, className: FILL[stateLook(to).tone] },
          }))}
        />
      )}
      <div className="relative mt-1 h-4 text-2xs text-ink-3" aria-hidden>
        {longest.map((segment) => (
          <span
            key={`${segment.state}${segment.sinceMs}`}
            className="absolute truncate"
            style={{
              left: `${segment.from * 100}%`,
              maxWidth: `${(segment.to - segment.from) * 100}%`,
            }}
          >
            {stateLook(segment.state).text}
          </span>
        ))}
        <span className="absolute right-0 bg-surface pl-2">{band.span}</span>
      </div>
    </div>
  )
}
