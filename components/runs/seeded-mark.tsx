export function SeededMark() {
  return (
    <span
      className="min-w-0 truncate rounded-[4px] border border-line-strong px-1.5 text-2xs text-ink-2"
      title="Synthetic data created by npm run seed."
    >
      Synthetic
    </span>
  )
}
