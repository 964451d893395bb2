/**
 * The numbers of all advisory locks in Postgres, so that no two locks share one. A lock on one row uses the number
 * together with the row's ID, or with a hash.
 */
export const ADVISORY_LOCKS = {
  /** Prisma's own number, so that this program and Prisma never migrate at the same time. */
  migration: 72_707_369,
  /** Creating a partition of texts. */
  textPartition: 72_707_370,
  /**
   * Appending to, closing or cancelling a batch; one lock per batch. Flushes never take it. append-singles.sql takes it
   * too.
   */
  batch: 72_707_371,
  /** Granting leases; one lock per resource, by its hash. Also taken in renew-lease.sql. */
  lease: 72_707_372,
  /** Self-test, sleep and wake of a server; one lock per server. */
  server: 72_707_373,
  /** Evaluating monitors and changing incidents, in one process at a time. */
  monitors: 72_707_374,
  /** Copying rollouts into a new batch; one lock per new batch. */
  copy: 72_707_375,
  /** Installing and dropping a schema of functions. */
  functions: 72_707_376,
  /** Requeueing the orphans of a batch, in one process at a time; one lock per batch. */
  orphans: 72_707_380,
  /** Submits to a run with limits, so that concurrent submits together cannot exceed the limits; one lock per run. */
  runLimits: 72_707_381,
  /**
   * Shared for processes that begin to copy a batch, exclusive for retention while it marks batches. A batch is
   * therefore never copied and removed at the same time.
   */
  retentionMarks: 72_707_382,
  /** Removing data, in one process at a time. */
  removal: 72_707_383,
  /** Preparing queues and partitions when a process starts. */
  start: 72_707_384,
  /** Shared for a backup, exclusive for migrations. */
  backup: 72_707_385,
  /** Revoking API keys. */
  apiKeys: 72_707_386,
  /**
   * Rolling up the prompts of a run, because two servers may roll up two of its batches at the same time; one lock per
   * run.
   */
  prompts: 72_707_391,
} as const
