/**
 * Postgres's settings for one service that writes in bulk and reads by key, on a shared machine. Only differences
 * from Postgres's defaults are listed.
 */
export const POSTGRES_SETTINGS: Readonly<Record<string, string>> = {
  // Clients connect through the socket's folder only.
  listen_addresses: '',
  unix_socket_permissions: '0700',
  // A server uses 12 connections, a worker 4; an idle connection costs 2 to 3 MB.
  max_connections: '200',
  shared_buffers: '256MB',
  work_mem: '16MB',
  maintenance_work_mem: '128MB',
  // A batch of 8,192 samples of 3 KB writes 25 MB of WAL. With the default limit of 1 GB, every 40th batch causes a
  // checkpoint.
  max_wal_size: '2GB',
  min_wal_size: '256MB',
  checkpoint_timeout: '15min',
  // Without replicas and base backups, the minimal WAL suffices.
  wal_level: 'minimal',
  max_wal_senders: '0',
  // On SSDs, reading a random page costs little more than reading the next page.
  random_page_cost: '1.1',
  // Compiling costs more than it saves in queries of a few ms.
  jit: 'off',
  // Each sample is written twice, and each lease several times per second, so vacuum runs early and in small steps.
  autovacuum_naptime: '15s',
  autovacuum_vacuum_scale_factor: '0.05',
  autovacuum_analyze_scale_factor: '0.05',
  autovacuum_vacuum_cost_limit: '1000',
  // Failed statements are reported to their senders and not logged, because they may contain a batch's texts.
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
}

/** For databases of tests: no write waits for the disk. */
export const THROWAWAY_SETTINGS: Readonly<Record<string, string>> = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  shared_buffers: '64MB',
}

export function asArguments(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}
