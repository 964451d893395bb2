import { ArrowUp } from 'lucide-react'

export function NewRows({
  count,
  more,
  noun,
  onShow,
}: {
  count: number
  /** True if there may be more new rows than `count`. */
  more?: boolean
  noun: [one: string, many: string]
  onShow(): void
}) {
  return (
    <div role="status" aria-live="polite" className={count > 0 ? 'border-b' : undefined}>
      {count > 0 && (
        <button
          type="button"
          onClick={onShow}
          className="num flex h-8 w-full items-center justify-center gap-1.5 bg-selected text-xs font-medium text-accent hover:brightness-[0.98]"
        >
          <ArrowUp size={13} aria-hidden />
          Show {count}
          {more ? '+' : ''} new {count === 1 && !more ? noun[0] : noun[1]}
        </button>
      )}
    </div>
  )
}
