/** Says that a run is made up. */
export function SeededMark() {
  return (
    <span
      className="whitespace-nowrap rounded-[4px] border border-line-strong px-1.5 text-2xs text-ink-2"
      title="Made up by npm run seed: neither its texts nor its rewards are real."
    >
      seeded data
    </span>
  )
}
