/** Thrown when a comparison has used up its time or its steps. */
export class OutOfBudget extends Error {
  override readonly name = 'OutOfBudget'
}

/** Steps of parsing and computing in one comparison; the costliest of 2,351 real ones takes 450. */
const mostSteps = 100_000

/** The clock is read once in so many steps: a reading costs about 1 µs, a step 0.05. */
const stepsPerReading = 256

/**
 * Milliseconds of CPU time of this thread, so that a machine that is busy with other things makes nobody's answer
 * wrong; where the runtime does not tell, of the clock.
 */
const nowMs: () => number =
  typeof process.threadCpuUsage === 'function'
    ? () => {
        const { user, system } = process.threadCpuUsage()
        return (user + system) / 1000
      }
    : () => performance.now()

/**
 * What one comparison may cost. Every loop over an answer calls `step`, so that an answer that is costly in a way
 * nobody thought of ends with an error and not with a blocked event loop.
 */
export class Budget {
  private readonly deadline: number
  private left = mostSteps

  /** @param deadlineMs milliseconds of CPU time from now */
  constructor(deadlineMs: number) {
    this.deadline = nowMs() + deadlineMs
  }

  /** @throws OutOfBudget */
  step(): void {
    if (--this.left % stepsPerReading !== 0) return
    if (this.left <= 0) throw new OutOfBudget(`more than ${mostSteps} steps`)
    this.check()
  }

  /** Reads the clock at once. @throws OutOfBudget */
  check(): void {
    if (nowMs() > this.deadline) throw new OutOfBudget('out of time')
  }
}
