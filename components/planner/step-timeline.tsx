import type { PlannedColumn, PlannerDto } from '../../server/contract/planner.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { durationText, formatCount, significant } from '../format/numbers.ts'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { limitText, STRATEGY_WORDS, stepText } from './strategy-words.ts'
import { prepareTimeline, type TimelineBar, type TimelineLane } from './timeline.prepare.ts'

const WHAT: Record<TimelineBar['what'], { label: string; background: string }> = {
  rollout: { label: 'Rollout', background: 'var(--data-1)' },
  log_prob: { label: 'Log-probs', background: 'var(--data-4)' },
  update: { label: 'Updates', background: 'var(--data-3)' },
  wait: {
    label: 'Reward wait',
    background:
      'repeating-linear-gradient(-45deg, color-mix(in oklab, var(--ink-3) 70%, var(--sunken)) 0 1px, var(--sunken) 1px 6px)',
  },
}
const LANE_PX = 74
const FOOT_PX = 52

export function StepTimeline({ plan, column }: { plan: PlannerDto; column: PlannedColumn }) {
  const data = prepareTimeline(plan.shown)
  const { lanes, most, untilMs } = data
  return (
    <ChartFrame
      title="Timeline by strategy"
      note={`${limitText(column)} · first ${stepText(untilMs)} · up to ${formatCount(Math.round(most))} rewards in flight`}
      height={lanes.length * LANE_PX + FOOT_PX}
      chart={
        <>
          <ul>
            {lanes.map((lane) => (
              <Lane key={lane.strategy} lane={lane} column={column} />
            ))}
          </ul>
          <div className="relative h-5 border-t" aria-hidden>
            {data.ticks.map(({ percent, ms }) => (
              <span
                key={ms}
                className="num absolute top-0.5 text-2xs text-ink-3"
                style={{ left: `${percent}%` }}
              >
                {tickText(ms)}
              </span>
            ))}
          </div>
          <p className="flex flex-wrap items-center gap-x-4 gap-y-1 pt-1 text-2xs text-ink-3">
            {Object.values(WHAT).map(({ label, background }) => (
              <span key={label} className="flex items-center gap-1.5">
                <span className="size-2.5 rounded-[2px]" style={{ background }} aria-hidden />
                {label}
              </span>
            ))}
            <span className="flex items-center gap-1.5">
              <span
                className="h-2 w-3 rounded-[1px]"
                style={{ background: 'var(--data-2)', opacity: 0.55 }}
                aria-hidden
              />
              Rewards in flight
            </span>
            <span className="max-md:hidden">Alternate steps are paler</span>
          </p>
        </>
      }
      table={{
        head: ['Strategy', 'Step', 'Phase', 'From', 'To', 'Duration'],
        rows: plan.shown.pictures.flatMap(({ strategy, spans }) =>
          spans.map(({ what, step, fromMs, toMs }) => [
            STRATEGY_WORDS[strategy].label,
            formatCount(step + 1),
            WHAT[what].label,
            stepText(fromMs),
            stepText(toMs),
            stepText(toMs - fromMs),
          ]),
        ),
      }}
    />
  )
}

/** Returns a tick label, in seconds even above a minute, so that ticks are easy to compare. */
function tickText(ms: number): string {
  if (ms === 0) return '0'
  return ms >= 1_000 && ms < 36_000_000 ? `${significant(ms / 1_000, 6)}\u00a0s` : durationText(ms)
}

function Lane({ lane, column }: { lane: TimelineLane; column: PlannedColumn }) {
  const { label } = STRATEGY_WORDS[lane.strategy]
  const planned = column.strategies.find(({ strategy }) => strategy === lane.strategy)
  const figures =
    planned === undefined
      ? ''
      : `Step time ${stepText(planned.stepMs)}${planned.waitMs >= 0.5 ? `, reward wait ${stepText(planned.waitMs)}` : ''}`
  return (
    <li style={{ height: LANE_PX }}>
      <p className="flex justify-between gap-3 text-xs">
        <span className="truncate font-medium">{label}</span>
        <span className="num shrink-0 text-ink-3">{figures}</span>
      </p>
      <div
        role="img"
        aria-label={`${label}. ${figures}. Up to ${formatCount(Math.round(lane.most))} rewards in flight.`}
        className="mt-1"
      >
        <SegmentBar
          className="h-[18px]"
          segments={lane.bars.map(({ what, step, from, share, ms }) => ({
            ...{ key: from, from, share, color: WHAT[what].background },
            title: `Step ${step + 1}, ${WHAT[what].label.toLowerCase()}: ${stepText(ms)}`,
            ...(step % 2 === 1 && what !== 'wait' && { className: 'opacity-60' }),
          }))}
        />
        <svg
          viewBox="0 0 100 100"
          preserveAspectRatio="none"
          className="mt-0.5 block h-6 w-full border-b"
          aria-hidden
        >
          <path d={lane.area} fill="var(--data-2)" fillOpacity={0.55} />
        </svg>
      </div>
    </li>
  )
}
