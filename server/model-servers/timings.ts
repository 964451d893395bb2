/** Intervals and time limits of probes, tests, drains and wakes; all in ms. */
export interface ModelTimings {
  lookEveryMs: number
  /** Interval of a server's probes, spread by ±20 % so that they do not coincide. */
  probeEveryMs: number
  /**
   * Time limit of a probe. SGLang's health check takes at least 1 s; 3 s is enough to tell a busy server from a dead
   * one.
   */
  probeTimeoutMs: number
  /** Time limit of the probe at registration, when the server may be busy. */
  registerTimeoutMs: number
  /** How long a server that just became unreachable is probed more often, because a step may wait for it. */
  newlyGoneForMs: number
  newlyGoneEveryMs: number
  /** How long a server is unreachable before it counts as dead and is probed less often. */
  deadAfterMs: number
  deadEveryMs: number
  selfTestTimeoutMs: number
  /** Interval between calibrations of an idle server; `retestEveryMs`: between self-tests of a quarantined server. */
  calibrateEveryMs: number
  retestEveryMs: number
  /** Time without a request after which a server is idle. A successful request within this time replaces a probe. */
  idleAfterMs: number
  /** Time limit of the drain before sleep; a server that is not idle by then stays awake. */
  drainWithinMs: number
  drainLookMs: number
  /** Time limit from the sleep call until the server reports sleep. */
  asleepWithinMs: number
  asleepLookMs: number
  /** Time limit from the wake call until the server responds and is awake. */
  awakeWithinMs: number
  awakeLookMs: number
  sweepEveryMs: number
  /**
   * How much a batch extends a server's time awake each time. Short, so that the server sleeps soon after the batch
   * ends.
   */
  keepAwakeMs: number
  /** Time before a failed sleep, or a failed wake for a batch, is retried. */
  trySleepAgainMs: number
  tryWakeAgainMs: number
  /** For launched processes: time from SIGTERM to SIGKILL; `restartAtMostMs`: longest delay before a restart. */
  stopWithinMs: number
  restartAtMostMs: number
  /** Interval at which to check whether another service still runs a launched server of the same name. */
  freeNameEveryMs: number
}

export const MODEL_TIMINGS: ModelTimings = {
  lookEveryMs: 500,
  probeEveryMs: 5_000,
  probeTimeoutMs: 3_000,
  registerTimeoutMs: 8_000,
  newlyGoneForMs: 30_000,
  newlyGoneEveryMs: 1_000,
  deadAfterMs: 600_000,
  deadEveryMs: 60_000,
  selfTestTimeoutMs: 30_000,
  calibrateEveryMs: 60_000,
  retestEveryMs: 5_000,
  idleAfterMs: 5_000,
  drainWithinMs: 60_000,
  drainLookMs: 100,
  asleepWithinMs: 60_000,
  asleepLookMs: 500,
  awakeWithinMs: 120_000,
  awakeLookMs: 500,
  sweepEveryMs: 1_000,
  keepAwakeMs: 5_000,
  trySleepAgainMs: 60_000,
  tryWakeAgainMs: 5_000,
  stopWithinMs: 10_000,
  restartAtMostMs: 30_000,
  freeNameEveryMs: 5_000,
}
