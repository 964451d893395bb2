export function Probing({ address }: { address: string }) {
  return (
    <span className="mr-auto min-w-0 truncate text-xs text-ink-2" role="status">
      Probing {address} and testing its scores…
    </span>
  )
}
