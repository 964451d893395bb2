/**
 * Whether this process may signal only processes that its function started, because it has its own user or process
 * namespace.
 */
const IS_ALONE = process.argv[3] === 'alone'

/**
 * Kills this process and every process that its function started. If this process may also signal other processes, it
 * kills only its own process group.
 */
export function endGroup(): void {
  if (IS_ALONE) {
    // Signals every process that this one may signal, except itself.
    process.kill(-1, 'SIGKILL')
    process.kill(process.pid, 'SIGKILL')
  } else process.kill(-process.pid, 'SIGKILL')
}
