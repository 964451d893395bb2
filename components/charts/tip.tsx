export function Tip({
  title,
  rows,
}: {
  title: string
  rows: { label: string; value: string; color?: string }[]
}) {
  return (
    <div className="rounded-md border border-line-strong bg-raised px-2.5 py-1.5 text-xs shadow-pop">
      <p className="num font-medium">{title}</p>
      {rows.map((row) => (
        <p key={row.label} className="num flex items-center gap-2 text-ink-2">
          {row.color && (
            <span className="size-2 rounded-[2px]" style={{ background: row.color }} aria-hidden />
          )}
          {row.label}
          <span className="ml-auto pl-4 text-ink">{row.value}</span>
        </p>
      ))}
    </div>
  )
}
