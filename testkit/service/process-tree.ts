import { readdirSync, readFileSync } from 'node:fs'
import { inspectProcess } from '../../server/store/postgres/processes.ts'

/** A process, told apart from another that is given its pid later. */
export interface SeenProcess {
  pid: number
  startedAt: string
  commandLine: string
}

/** Processes that were started with a variable of this value in their environment, and theirs; Linux. */
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

/** Processes whose command line or working directory holds a text; Linux. */
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
