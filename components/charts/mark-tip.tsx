import type { MarkLine } from './marks.prepare.ts'

/** The marks of a step, below its tooltip values. */
export function MarkTip({ line }: { line: MarkLine | undefined }) {
  if (line === undefined) return null
  return (
    <div className="mt-1 max-w-64 whitespace-normal rounded-md border border-line-strong bg-raised px-2.5 py-1 text-xs shadow-pop">
      {line.marks.map((mark) => (
        <p key={mark.id ?? mark.label}>
          ◆ {mark.label}
          {mark.note !== '' && <span className="line-clamp-3 block text-ink-3">{mark.note}</span>}
        </p>
      ))}
    </div>
  )
}
