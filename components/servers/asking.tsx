/** Said while an address is asked who it is, which takes as long as it takes to answer. */
export function Asking({ address }: { address: string }) {
  return (
    <span className="mr-auto min-w-0 truncate text-xs text-ink-2" role="status">
      Asking {address} who it is, and testing its scores…
    </span>
  )
}
