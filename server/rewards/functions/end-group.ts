/** Ends this process and every process its function started: they share its process group. */
export function endGroup(): void {
  process.kill(-process.pid, 'SIGKILL')
}
