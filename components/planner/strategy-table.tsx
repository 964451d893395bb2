import type { PlannedColumn, PlannedStrategy, PlannerDto } from '../../server/contract/planner.ts'
import { STRATEGIES } from '../../server/contract/strategies.ts'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { showKey } from './planner-form.prepare.ts'
import { limitText, RECOMMENDED, STRATEGY_WORDS, savingText, stepText } from './strategy-words.ts'

/** Step time by strategy and limit. A click on a column header draws the timeline for its limit. */
export function StrategyTable({
  plan,
  shown,
  onShow,
}: {
  plan: PlannerDto
  shown: PlannedColumn
  onShow(key: string): void
}) {
  return (
    <Section
      title="Step time"
      note={`mean of ${plan.steps} ${plan.steps === 1 ? 'step' : 'steps'}, with warm-up and drain · saving relative to the barrier at the same limit`}
    >
      <Scroll label="Step time">
        <table className="grid-table">
          <thead>
            <tr>
              <th scope="col">Strategy</th>
              {plan.columns.map((column) => {
                const key = showKey(column.limit, column.servers)
                return (
                  <th key={key} scope="col" className="end">
                    <button
                      type="button"
                      aria-pressed={column === shown}
                      title="Show the timeline at this limit"
                      onClick={() => onShow(key)}
                      className="rounded-[4px] px-1.5 py-0.5 hover:bg-hover hover:text-ink aria-pressed:bg-selected aria-pressed:font-medium aria-pressed:text-ink quick transition-colors"
                    >
                      {limitText(column)}
                    </button>
                  </th>
                )
              })}
            </tr>
          </thead>
          <tbody>
            {STRATEGIES.map((strategy) => (
              <tr key={strategy} data-strategy={strategy}>
                <th scope="row" className="h-13! py-1.5! text-left!">
                  <span className="block text-sm font-medium text-ink">
                    {STRATEGY_WORDS[strategy].label}
                  </span>
                  <span className="block max-w-96 text-2xs font-normal whitespace-normal max-md:hidden">
                    {STRATEGY_WORDS[strategy].about}
                  </span>
                </th>
                {plan.columns.map((column) => {
                  const one = column.strategies.find((each) => each.strategy === strategy)
                  return (
                    <td key={showKey(column.limit, column.servers)} className="num end h-13!">
                      {one && (
                        <Cell one={one} isBest={!column.noGain && column.best === strategy} />
                      )}
                    </td>
                  )
                })}
              </tr>
            ))}
            <tr>
              <th scope="row" className="h-13! text-left!">
                <span className="block text-sm text-ink-2">Lower bound</span>
              </th>
              {plan.columns.map((column) => (
                <td
                  key={showKey(column.limit, column.servers)}
                  className="num end h-13! text-ink-2"
                >
                  <span className="block">{stepText(column.boundMs)}</span>
                  <span className="block text-2xs text-ink-3">
                    {column.boundBy === 'trainer' ? 'Trainer time' : 'Reward latency'}
                  </span>
                </td>
              ))}
            </tr>
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}

function Cell({ one, isBest }: { one: PlannedStrategy; isBest: boolean }) {
  const waits = one.waitMs < 0.5 ? 'no reward wait' : `reward wait ${stepText(one.waitMs)}`
  return (
    <>
      <span className={`block ${isBest ? 'font-semibold' : ''}`}>
        {isBest && (
          <span className="mr-2 text-2xs font-normal text-ok max-md:hidden" title={RECOMMENDED}>
            Recommended
          </span>
        )}
        {stepText(one.stepMs)}
      </span>
      <span className="block text-2xs text-ink-3">
        {savingText(one)} · {waits}
      </span>
    </>
  )
}
