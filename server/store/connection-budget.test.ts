import { expect, it } from 'vitest'
import {
  LISTENERS,
  MAX_SERVER_CONNECTIONS,
  MAX_WORKER_CONNECTIONS,
  SERVER_POOLS,
  WORKER_POOL,
} from './connection-budget.ts'

it('a server and a worker stay within their connection limits', () => {
  const server = Object.values(SERVER_POOLS).reduce((sum, pool) => sum + pool.max, LISTENERS)
  expect(server).toBeLessThanOrEqual(MAX_SERVER_CONNECTIONS)
  expect(WORKER_POOL.max + LISTENERS).toBeLessThanOrEqual(MAX_WORKER_CONNECTIONS)
})

it('a hundred workers and two servers fit a Postgres of 500 connections', () => {
  expect(100 * MAX_WORKER_CONNECTIONS + 2 * MAX_SERVER_CONNECTIONS).toBeLessThan(500)
})
