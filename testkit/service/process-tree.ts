import { readdirSync, readFileSync } from 'node:fs'
import { inspectProcess } from '../../server/store/postgres/processes.ts'

/** A process. `startedAt` distinguishes it from a later one with the same pid. */
export interface SeenProcess {
  pid: number
  startedAt: string
  commandLine: string
}

/** Processes with this variable and value in their environment, which descendants inherit; Linux only. */
export function processesWith(variable: string, value: string): SeenProcess[] {
  const wanted = `${variable}=${value}`
  return readdirSync('/proc').flatMap((name) => {
    const pid = Number(name)
    if (!Number.isInteger(pid)) return []
    let environment: string
    try {
      environment = readFileSync(`/proc/${pid}/environ`, 'latin1')
    } catch {
      return []
    }
    return environment.split('\0').includes(wanted) ? seen(pid) : []
  })
}

/** Processes whose command line contains a text or whose working directory starts with it; Linux only. */
export function processesAbout(text: string): SeenProcess[] {
  return readdirSync('/proc').flatMap((name) => {
    const facts = inspectProcess(Number(name))
    if (!facts?.running || Number(name) === process.pid) return []
    return facts.commandLine.includes(text) || facts.cwd?.startsWith(text) ? seen(Number(name)) : []
  })
}

function seen(pid: number): SeenProcess[] {
  const facts = inspectProcess(pid)
  if (!facts?.running) return []
  return [{ pid, startedAt: facts.startedAt, commandLine: facts.commandLine.slice(0, 200) }]
}
