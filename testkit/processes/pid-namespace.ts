import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'

const UNSHARE = [
  // Only root may create a pid namespace without a user namespace.
  ...(process.getuid?.() === 0 ? [] : ['--user', '--map-current-user']),
  ...['--pid', '--fork', '--kill-child'],
]

/** Whether this machine permits new pid namespaces. */
export const HAS_PID_NAMESPACES = spawnSync('unshare', [...UNSHARE, 'true']).status === 0

/**
 * Runs the text of an ES module like a process in another container with the same host name: in a new pid namespace,
 * with the process id `pid`. Resolves when the module has printed a line. Killing the returned process ends the module.
 */
export async function runAsTwinContainer(
  script: string,
  pid: number,
): Promise<{ process: ChildProcess; line: string }> {
  // The kernel would choose a low id, which may also be in use in this namespace.
  const whole = `Object.defineProperty(process, 'pid', { value: ${pid} }); ${script}`
  const node = [process.execPath, '--input-type=module', '--eval', whole]
  const started = spawn('unshare', [...UNSHARE, ...node], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(started, 'exit').then(() => {
    throw new Error('it ended before it printed a line')
  })
  const [line] = (await Promise.race([once(started.stdout, 'data'), ended])) as [Buffer]
  return { process: started, line: line.toString().trim() }
}
