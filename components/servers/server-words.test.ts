import { describe, expect, test } from 'vitest'
import type { ServerState } from '../../server/contract/servers.ts'
import { prepareEvidence } from './evidence.prepare.ts'
import {
  fleetWords,
  healthWords,
  imbalanceWords,
  ratesWords,
  readServerRef,
  serverHref,
} from './server-words.ts'

describe('server labels', () => {
  test('a fleet is calm while every server is ready, asleep or draining', () => {
    const health = { ok: 2, suspect: 0, ejected: 0, halfOpen: 0, slowStart: 0 }
    const fleet = (...states: ServerState[]) => states.map((state) => ({ state, health }))
    expect(fleetWords(fleet('ready', 'sleeping', 'draining'))).toEqual({
      text: '1 of 3 ready, 1 draining, 1 asleep',
      calm: true,
    })
    expect(fleetWords(fleet('ready', 'quarantined', 'dead')).calm).toBe(false)
    const ejected = { state: 'ready' as const, health: { ...health, ok: 1, ejected: 1 } }
    expect(fleetWords([ejected, ...fleet('ready')])).toEqual({
      text: '2 of 2 ready, 1 ejected',
      calm: false,
    })
  })

  test('health is the worst over all processes', () => {
    const none = { ok: 0, suspect: 0, ejected: 0, halfOpen: 0, slowStart: 0 }
    expect(healthWords(none)).toMatchObject({ text: '–', tone: 'idle' })
    expect(healthWords({ ...none, ok: 3 })).toMatchObject({ text: 'OK', tone: 'ok' })
    expect(healthWords({ ...none, ok: 2, ejected: 1, slowStart: 1 })).toEqual({
      text: 'Ejected 1/4',
      detail: 'ejected in 1 process, slow start in 1 process, ok in 2 processes',
      tone: 'bad',
    })
    expect(healthWords({ ...none, halfOpen: 1 })).toMatchObject({ text: 'Half-open', tone: 'warn' })
  })

  test('imbalance and rate limits have readable texts', () => {
    expect([null, 1, 1.1, 1.43, 12.4].map(imbalanceWords)).toEqual([
      'No requests',
      'Even',
      'Even',
      '1.4×',
      '12×',
    ])
    expect(ratesWords({ rpm: 600, tpm: 90_000 })).toEqual(['600 requests/min', '90k tokens/min'])
    expect(ratesWords({ rpm: null, tpm: null })).toEqual([])
  })

  test('every valid server name round-trips through its URL', () => {
    for (const name of ['rm-1', 'a.b:c_d', 's3', 'x'.repeat(128)]) {
      const href = serverHref({ id: 's3', name })
      expect(readServerRef(href.slice('/servers/'.length))).toEqual({ name })
    }
    for (const name of ['.', '..', 'rm.rsc', 'rm.json']) {
      expect(serverHref({ id: 's3', name })).toBe('/servers/~s3')
    }
    expect(readServerRef('~s3')).toEqual({ id: 's3' })
    for (const bad of ['a b', '%zz', 'a%2Fb', '~3', '']) expect(readServerRef(bad)).toBeNull()
  })
})

describe('evidence', () => {
  test('has labels and units instead of stored values', () => {
    expect(
      prepareEvidence({
        probeMs: 1_240,
        verdict: 'not_applicable',
        reportedAsleep: true,
        activated: null,
        reason: 'server_unreachable',
        pool: [{ name: 'rm-2', calibration: 2.5 }],
        someNewThing: 3,
        process: 'server',
      }).map(({ label, value }) => `${label}: ${value.replace('\u00a0', ' ')}`),
    ).toEqual([
      'Verdict: Not applicable',
      'Pool calibration scores: rm-2 2.500',
      'Reported as sleeping: Yes',
      'Probe time: 1.24 s',
      'Observed by: Server process',
      'Some new thing: 3',
    ])
    expect(prepareEvidence(null)).toEqual([])
    expect(prepareEvidence({ lastLines: ['a', 'b'], pool: [] })).toEqual([
      { label: 'Last log lines', value: '', lines: ['a', 'b'] },
    ])
  })
})
