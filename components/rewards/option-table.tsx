import type { OptionDto } from '../../server/contract/rewards.ts'

const COLUMNS = 'md:grid-cols-[200px_170px_110px_minmax(0,1fr)]'

/** The options of a rule or manager. */
export function OptionTable({ of, options }: { of: string; options: readonly OptionDto[] }) {
  if (options.length === 0) {
    return <p className="text-xs text-ink-3">No options.</p>
  }
  return (
    <div className="overflow-hidden rounded-md border text-xs">
      <div className={`hidden border-b text-ink-3 md:grid ${COLUMNS}`} aria-hidden>
        {['Option', 'Type', 'Default', 'Description'].map((head) => (
          <span key={head} className="px-3 py-1.5">
            {head}
          </span>
        ))}
      </div>
      <ul aria-label={`Options of ${of}`}>
        {options.map(({ name, type, choices, defaultJson, description }) => (
          <li
            key={name}
            className={`grid gap-x-3 px-3 py-1.5 not-last:border-b max-md:grid-cols-[minmax(0,1fr)_auto] md:gap-x-0 md:px-0 ${COLUMNS}`}
          >
            <span className="font-mono [overflow-wrap:anywhere] md:px-3">{name}</span>
            <span className="text-ink-2 max-md:order-last max-md:col-span-2 md:px-3">
              {choices === null ? type : <span className="font-mono">{choices.join(' | ')}</span>}
            </span>
            <span className="font-mono max-md:text-right md:px-3">
              {defaultJson === null ? (
                <span className="font-sans text-ink-3">required</span>
              ) : (
                defaultJson
              )}
            </span>
            <span className="text-ink-2 max-md:col-span-2 md:px-3">{description}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}
