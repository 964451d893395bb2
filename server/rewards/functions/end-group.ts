/**
 * Whether every process that this one may signal was started by its function: it has a user or a process namespace of
 * its own. The argument is the second after the entry's path, in threads too.
 */
const IS_ALONE = process.argv[3] === 'alone'

/** Kills this process and every process that its function started: by their process group, if others may be signalled. */
export function endGroup(): void {
  if (IS_ALONE) {
    // All but this process.
    process.kill(-1, 'SIGKILL')
    process.kill(process.pid, 'SIGKILL')
  } else process.kill(-process.pid, 'SIGKILL')
}
