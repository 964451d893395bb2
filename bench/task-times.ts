import type { Browser, Page } from '@playwright/test'

/** Duration of one task of a page's main thread. Wall-clock time includes waits for cores that other processes use. */
export interface TaskTime {
  clockMs: number
  cpuMs: number
}

const TASK = /^(ThreadControllerImpl::)?RunTask$/

interface TraceEvent {
  name: string
  pid: number
  tid: number
  args: { name?: string }
  /** Microseconds; undefined for an unfinished task. */
  dur?: number
  tdur?: number
}

/** The tasks of the page's main thread while `watched` runs, longest CPU time first, from Chromium's trace. */
export async function taskTimes(
  browser: Browser,
  page: Page,
  watched: () => Promise<void>,
): Promise<TaskTime[]> {
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline'] })
  await watched()
  const trace = JSON.parse((await browser.stopTracing()).toString('utf8')) as {
    traceEvents: TraceEvent[]
  }
  const threads = new Map<string, TaskTime[]>()
  for (const { name, pid, tid, args } of trace.traceEvents) {
    if (name === 'thread_name' && args.name === 'CrRendererMain') threads.set(`${pid} ${tid}`, [])
  }
  for (const { name, pid, tid, dur, tdur } of trace.traceEvents) {
    if (dur === undefined || tdur === undefined || !TASK.test(name)) continue
    threads.get(`${pid} ${tid}`)?.push({ clockMs: dur / 1_000, cpuMs: tdur / 1_000 })
  }
  // The browser's own interface has main threads too. The measured page's thread is the busiest.
  const sumOf = (tasks: TaskTime[]) => tasks.reduce((sum, { cpuMs }) => sum + cpuMs, 0)
  const busiest = [...threads.values()].sort((a, b) => sumOf(b) - sumOf(a))[0] ?? []
  return busiest.sort((a, b) => b.cpuMs - a.cpuMs)
}
