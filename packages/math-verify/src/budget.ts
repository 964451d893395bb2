/** Thrown when a comparison has used up its time or its steps. */
export class OutOfBudget extends Error {
  override readonly name = 'OutOfBudget'
}

/** CPU time limit of one comparison, ms. A typical comparison takes 0.05 to 1 ms, the first of a process 20 ms. */
export const DEFAULT_DEADLINE_MS = 100

/** Maximum number of steps of parsing and computing. The costliest of 2,351 recorded comparisons takes 450. */
const MAX_STEPS = 100_000

/** Number of steps between two reads of the clock. A read takes about 1 µs, a step 0.05 µs. */
const STEPS_PER_CLOCK_READ = 256

/**
 * CPU milliseconds of this thread, so that verdicts do not depend on other load on the machine. Runtimes without
 * `threadCpuUsage` use elapsed time.
 */
const nowMs: () => number =
  typeof globalThis.process?.threadCpuUsage === 'function'
    ? () => {
        const { user, system } = process.threadCpuUsage()
        return (user + system) / 1000
      }
    : () => performance.now()

/**
 * Limits the cost of one comparison. Every loop over an answer calls `step`, so an unexpectedly costly answer ends with
 * an error instead of blocking the event loop.
 */
export class Budget {
  private readonly deadline: number
  private left = MAX_STEPS

  /** @param deadlineMs milliseconds of CPU time from now */
  constructor(deadlineMs: number = DEFAULT_DEADLINE_MS) {
    this.deadline = nowMs() + deadlineMs
  }

  /** Counts a step. @throws OutOfBudget */
  step(): void {
    if (--this.left % STEPS_PER_CLOCK_READ !== 0) return
    if (this.left <= 0) throw new OutOfBudget(`more than ${MAX_STEPS} steps`)
    this.check()
  }

  /** Checks the deadline. @throws OutOfBudget */
  check(): void {
    if (nowMs() > this.deadline) throw new OutOfBudget('out of time')
  }
}
