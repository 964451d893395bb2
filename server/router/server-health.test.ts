import { expect, test } from 'vitest'
import { ServerHealth } from './server-health.ts'

/** The health of a server whose ejection times have no jitter. */
function healthOf() {
  const turns: string[] = []
  const health = new ServerHealth(
    (from, to, cause) => turns.push(`${from}>${to}: ${cause}`),
    undefined,
    () => 0.5,
  )
  const fault = (nowMs: number, weight = 1) =>
    health.faulted(health.begin(), weight, nowMs, 'answered 500')
  const success = (nowMs: number) => health.succeeded(health.begin(), nowMs)
  return { health, turns, fault, success }
}

test('five consecutive faults eject a server for 5 s; a success in between resets the count', () => {
  const { health, turns, fault, success } = healthOf()
  for (let i = 0; i < 4; i++) fault(0)
  success(0)
  for (let i = 0; i < 4; i++) fault(0)
  expect(health.state(0)).toBe('ok')
  fault(0)
  expect(health.state(0)).toBe('ejected')
  expect(health.isSoftEjected).toBe(false)
  expect(health.admits(4_999)).toBe(false)
  expect(health.admits(5_000)).toBe(true)
  expect(turns).toEqual([
    'ok>ejected: answered 500',
    'ejected>half_open: the ejection time has passed; one request at a time',
  ])
})

test('the ejection time varies by ±20 %: servers that fail together do not return together', () => {
  const until = (random: number) => {
    const health = new ServerHealth(
      () => {},
      undefined,
      () => random,
    )
    for (let i = 0; i < 5; i++) health.faulted(health.begin(), 1, 0, 'answered 500')
    return health.ejectedUntilMs
  }
  expect(until(0)).toBeCloseTo(4_000)
  expect(until(1)).toBeCloseTo(6_000)
})

test('a timeout counts half', () => {
  const { health, fault } = healthOf()
  for (let i = 0; i < 9; i++) fault(0, 0.5)
  expect(health.state(0)).toBe('ok')
  fault(0, 0.5)
  expect(health.state(0)).toBe('ejected')
})

test('half-open admits one call at a time, and two consecutive scores end it', () => {
  const { health, fault, success } = healthOf()
  for (let i = 0; i < 5; i++) fault(0)
  expect(health.state(5_000)).toBe('half_open')
  const probe = health.begin()
  expect(health.admits(5_000)).toBe(false)
  health.neutral(probe)
  expect(health.admits(5_000)).toBe(true)
  success(5_000)
  expect(health.state(5_000)).toBe('half_open')
  expect(health.admits(5_000)).toBe(true)
  success(5_100)
  expect(health.state(5_100)).toBe('slow_start')
  expect(health.consecutiveFaults).toBe(0)
})

test('slow start admits a share of its slots that grows from 10 % to 100 % within 20 s', () => {
  const { health, fault, success } = healthOf()
  for (let i = 0; i < 5; i++) fault(0)
  health.state(5_000)
  success(5_000)
  success(5_000)
  expect(health.share(5_000)).toBeCloseTo(0.1)
  expect(health.share(15_000)).toBeCloseTo(0.55)
  expect(health.admits(15_000)).toBe(true)
  expect(health.state(25_000)).toBe('ok')
  expect(health.share(25_000)).toBe(1)
})

test('a fault in half-open ejects a server again, as do five in slow start', () => {
  const { health, fault, success } = healthOf()
  for (let i = 0; i < 5; i++) fault(0)
  health.state(5_000)
  success(5_000)
  fault(5_000)
  expect(health.state(5_000)).toBe('ejected')
  const back = health.ejectedUntilMs
  health.state(back)
  success(back)
  success(back)
  for (let i = 0; i < 5; i++) fault(back)
  expect(health.state(back)).toBe('ejected')
  expect(health.ejections).toBe(3)
})

test('each ejection is 5 s longer, at most 60 s, until a minute without one', () => {
  const { health, fault, success } = healthOf()
  let now = 0
  for (let i = 0; i < 5; i++) fault(now)
  for (let n = 2; n <= 14; n++) {
    now = health.ejectedUntilMs
    expect(health.state(now)).toBe('half_open')
    fault(now)
    expect(health.ejectedUntilMs - now).toBe(Math.min(60_000, 5_000 * n))
  }
  now = health.ejectedUntilMs
  health.state(now)
  success(now)
  success(now)
  now += 60_001
  for (let i = 0; i < 5; i++) fault(now)
  expect(health.ejectedUntilMs - now).toBe(5_000)
})

test('calls begun before an ejection have no effect when they end after it', () => {
  const { health, fault } = healthOf()
  const early = [health.begin(), health.begin()]
  for (let i = 0; i < 5; i++) fault(0)
  health.succeeded(early[0] as number, 0)
  expect(health.state(0)).toBe('ejected')
  expect(health.state(5_000)).toBe('half_open')
  health.begin()
  health.faulted(early[1] as number, 1, 5_000, 'late')
  expect(health.state(5_000)).toBe('half_open')
  expect(health.admits(5_000)).toBe(false)
})

test('a silent server gets no new samples until it returns a score', () => {
  const { health, turns } = healthOf()
  const early = health.begin()
  health.wentSilent(0, 'no answer for 1,200 ms', { silentMs: 1_200 })
  expect(health.state(0)).toBe('suspect')
  expect(health.admits(0)).toBe(false)
  health.succeeded(early, 10)
  expect(health.state(10)).toBe('ok')
  expect(turns).toEqual([
    'ok>suspect: no answer for 1,200 ms',
    'suspect>ok: the server responds again',
  ])
})

test('a silent server whose samples were all scored elsewhere is ejected', () => {
  const { health } = healthOf()
  health.wentSilent(0, 'no answer', {})
  health.eject(100, 'answered nothing it was sent', false, {})
  expect(health.state(100)).toBe('ejected')
})

test('an ejection for slowness differs from one for failures', () => {
  const { health } = healthOf()
  health.eject(0, '7 times as slow as its peers', true, { times: 7 })
  expect(health.state(0)).toBe('ejected')
  expect(health.isSoftEjected).toBe(true)
})

test('a server that the registry reports as ready again restarts with a slow start', () => {
  const { health, fault } = healthOf()
  for (let i = 0; i < 5; i++) fault(0)
  health.reset(1_000)
  expect(health.state(1_000)).toBe('slow_start')
  expect(health.admits(1_000)).toBe(true)
  for (let i = 0; i < 5; i++) fault(1_000)
  expect(health.ejectedUntilMs).toBe(6_000)
})

test('a healthy server reported as ready again is unchanged', () => {
  const { health, turns } = healthOf()
  health.reset(0)
  expect(health.state(0)).toBe('ok')
  expect(turns).toEqual([])
})
