export interface TipRow {
  label: string
  value: string
  color?: string
}

export interface TipProps {
  title: string
  rows: readonly TipRow[]
}

export function Tip({ title, rows }: TipProps) {
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

export function MarkTip({
  line,
}: {
  line: { marks: readonly { id?: string | null; label: string; note: string }[] }
}) {
  return (
    <div className="mt-1 max-w-64 whitespace-normal rounded-md border border-line-strong bg-raised px-2.5 py-1 text-xs shadow-pop">
      {line.marks.map((mark) => (
        <p key={`${mark.id} ${mark.label}`}>
          ◆ {mark.label}
          {mark.note !== '' && <span className="line-clamp-3 block text-ink-3">{mark.note}</span>}
        </p>
      ))}
    </div>
  )
}
