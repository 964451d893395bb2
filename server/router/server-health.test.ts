import { expect, test } from 'vitest'
import { ServerHealth } from './server-health.ts'

function healthOf() {
  const turns: string[] = []
  const health = new ServerHealth((from, to, cause) => turns.push(`${from}>${to}: ${cause}`))
  const fault = (nowMs: number, weight = 1) =>
    health.faulted(health.begin(), weight, nowMs, 'answered 500')
  return { health, turns, fault }
}

test('five faults in a row put it out for 5 s; a success between begins the count anew', () => {
  const { health, turns, fault } = healthOf()
  for (let i = 0; i < 4; i++) fault(0)
  health.succeeded(health.begin())
  for (let i = 0; i < 4; i++) fault(0)
  expect(health.state(0)).toBe('ok')
  fault(0)
  expect(health.state(0)).toBe('out')
  expect(health.admits(4_999)).toBe(false)
  expect(health.admits(5_000)).toBe(true)
  expect(turns).toEqual([
    'ok>out: answered 500',
    'out>half_open: the time out is over; one call at a time',
  ])
})

test('a time-out counts half', () => {
  const { health, fault } = healthOf()
  for (let i = 0; i < 9; i++) fault(0, 0.5)
  expect(health.state(0)).toBe('ok')
  fault(0, 0.5)
  expect(health.state(0)).toBe('out')
})

test('half-open lets one call through at a time, until one succeeds', () => {
  const { health, fault } = healthOf()
  for (let i = 0; i < 5; i++) fault(0)
  expect(health.state(5_000)).toBe('half_open')
  const probe = health.begin()
  expect(health.admits(5_000)).toBe(false)
  health.neutral(probe)
  expect(health.admits(5_000)).toBe(true)
  health.succeeded(health.begin())
  expect(health.state(5_000)).toBe('ok')
  expect(health.consecutiveFaults).toBe(0)
})

test('each time out is 5 s longer, at most 60 s, and forgotten after a good minute', () => {
  const { health, fault } = healthOf()
  let now = 0
  for (let i = 0; i < 5; i++) fault(now)
  for (let n = 2; n <= 14; n++) {
    now = health.outUntilMs
    expect(health.state(now)).toBe('half_open')
    fault(now)
    expect(health.outUntilMs - now).toBe(Math.min(60_000, 5_000 * n))
  }
  now = health.outUntilMs
  health.state(now)
  health.succeeded(health.begin())
  now += 60_001
  for (let i = 0; i < 5; i++) fault(now)
  expect(health.outUntilMs - now).toBe(5_000)
})

test('calls begun before it was put out decide nothing when they end after it', () => {
  const { health, fault } = healthOf()
  const early = [health.begin(), health.begin()]
  for (let i = 0; i < 5; i++) fault(0)
  health.succeeded(early[0] as number)
  expect(health.state(0)).toBe('out')
  expect(health.state(5_000)).toBe('half_open')
  health.begin()
  health.faulted(early[1] as number, 1, 5_000, 'late')
  expect(health.state(5_000)).toBe('half_open')
  expect(health.admits(5_000)).toBe(false)
})

test('found ready again by the registry, it begins anew', () => {
  const { health, fault } = healthOf()
  for (let i = 0; i < 5; i++) fault(0)
  health.reset()
  expect(health.state(0)).toBe('ok')
  for (let i = 0; i < 5; i++) fault(0)
  expect(health.outUntilMs).toBe(5_000)
})
