import { describe, expect, test } from 'vitest'
import type { RunMarkDto } from '../../server/contract/marks.ts'
import { MONITOR_DEFINITIONS, type MonitorSettingDto } from '../../server/contract/monitors.ts'
import { prepareMarks, withMarks } from './marks.prepare.ts'
import { prepareMonitor, thresholdsOf } from './monitor.prepare.ts'
import { prepareSparkline } from './sparkline.prepare.ts'

const mark = (step: number, label: string): RunMarkDto => ({
  ...{ id: `m${step}`, kind: 'manual', step, label, note: '', author: 'local', at: null },
})
const steps = Array.from({ length: 100 }, (_, at) => ({ step: at + 1, x: at + 1 }))

describe('marks', () => {
  test('merge into one line per step, and are omitted outside the range', () => {
    const lines = prepareMarks(
      [mark(50, 'b'), mark(0, 'x'), mark(50, 'c'), mark(101, 'y')],
      steps,
      true,
    )
    expect(lines.map(({ step, text }) => [step, text])).toEqual([[50, 'b, c']])
  })

  test('have labels on the side with room', () => {
    const lines = prepareMarks(
      [mark(20, 'first'), mark(25, 'second'), mark(98, 'last')],
      steps,
      true,
    )
    expect(lines.map(({ text, side }) => [text, side])).toEqual([
      [null, 'right'],
      ['second', 'right'],
      ['last', 'left'],
    ])
    expect(prepareMarks([mark(20, 'first')], steps, false)[0]?.text).toBeNull()
    const long = prepareMarks([mark(20, 'x'.repeat(60))], steps, true)[0]?.text
    expect(long).toHaveLength(26)
  })

  test('appear in table views in the row of their step', () => {
    const table = {
      head: ['Step', 'Mean'],
      rows: [['1,200', 3] as (string | number)[], ['1,199', 2]],
    }
    expect(withMarks(table, [mark(1200, 'RM changed')])).toEqual({
      head: ['Step', 'Mean', 'Marks'],
      rows: [
        ['1,200', 3, 'RM changed'],
        ['1,199', 2, ''],
      ],
    })
    expect(withMarks(table, [mark(7, 'x')])).toBe(table)
    expect(withMarks({ head: ['Server'], rows: [['1,200']] }, [mark(1200, 'x')]).head).toEqual([
      'Server',
    ])
  })
})

const setting = (monitor: 'failures' | 'length_correlation'): MonitorSettingDto => ({
  ...{ monitor, enabled: true, source: 'default', changedBy: null, changedAt: null },
  warning: MONITOR_DEFINITIONS[monitor].warning,
  alerting: MONITOR_DEFINITIONS[monitor].alerting,
  openAfter: 1,
})
const point = (step: number, value: number | null) => ({
  ...{ step, batchId: `b${step}`, value, n: 100, state: 'ok' as const, detail: null },
})

describe('monitor over steps', () => {
  test('has a gap without a value, and the last value of a repeated step', () => {
    const data = prepareMonitor(
      [point(1, 0.01), point(2, null), point(3, 0.5), point(3, 0.03), point(6, 0)],
      setting('failures'),
    )
    expect(data.steps.map(({ step, value }) => [step, value])).toEqual([
      ...[
        [1, 0.01],
        [2, null],
        [3, 0.03],
        [4, null],
        [6, 0],
      ],
    ])
    expect([data.n, data.last?.step]).toEqual([3, 6])
    // The scale includes the threshold even where all values are far from it.
    expect(data.valueTicks.at(-1)?.at).toBeGreaterThanOrEqual(0.1)
    expect(data.valueTicks.at(-1)?.label).toMatch(/ %$/)
  })

  test('has threshold lines on both sides where both signs are bad', () => {
    const data = prepareMonitor([point(1, -0.2)], setting('length_correlation'))
    expect(data.thresholds.map(({ at }) => at)).toEqual([0.5, -0.5, 0.7, -0.7])
    const warnings = thresholdsOf(setting('length_correlation'), 'warning')
    const spark = prepareSparkline([-0.2, null], 100, 20, warnings)
    expect(spark.thresholds).toEqual([1.5, 18.5])
    expect(spark.last).toBeNull()
    expect(spark.lines).toHaveLength(1)
  })
})
