/** When and for how long servers are asked, tested, drained and woken; all in ms. */
export interface ModelTimings {
  /** Between two looks at who is due. */
  lookEveryMs: number
  /** Every server is asked this often whether it is there; spread by ±20 % so that they are not asked together. */
  probeEveryMs: number
  /** SGLang's health check takes at least 1 s; 3 s tells a busy server from a dead one. */
  probeTimeoutMs: number
  /** At registration a person waits, and the server may be busy. */
  registerTimeoutMs: number
  /** A server that has just gone is asked more often, for this long: the step waits for it. */
  newlyGoneForMs: number
  newlyGoneEveryMs: number
  /** Unreachable for this long it is dead, and asked more rarely. */
  deadAfterMs: number
  deadEveryMs: number
  /** A call to a server's scores in a test of them. */
  selfTestTimeoutMs: number
  /** An idle server's calibration score, and the test of one that is not trusted. */
  calibrateEveryMs: number
  /** A test that could not be made at all is made again. */
  retestEveryMs: number
  /** No call for this long: idle. A success within it: there, no need to ask. */
  idleAfterMs: number
  /** Before sleep: what is in flight may take this long to end, then the server stays awake. */
  drainWithinMs: number
  drainLookMs: number
  /** From the call to sleep until it says that it sleeps. */
  asleepWithinMs: number
  asleepLookMs: number
  /** From the call to wake until it answers awake. */
  awakeWithinMs: number
  awakeLookMs: number
  /** Between two looks at which batches want servers awake. */
  sweepEveryMs: number
  /** A server that a batch needs is kept awake by this much at a time: after the batch, or a crash, it is over soon. */
  keepAwakeMs: number
  /** A server that could not be put to sleep, or woken for a batch, is tried again after this long. */
  trySleepAgainMs: number
  tryWakeAgainMs: number
  /** Of a launched process: from SIGTERM to SIGKILL, and the longest pause before it is started again. */
  stopWithinMs: number
  restartAtMostMs: number
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
}
