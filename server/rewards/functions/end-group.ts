/** Kills this process and every process that its function started, because they share its process group. */
export function endGroup(): void {
  process.kill(-process.pid, 'SIGKILL')
}
