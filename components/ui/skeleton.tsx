/** Sizes in pixels. */
export function Skeleton({
  width,
  height = 12,
  className,
}: {
  width?: number
  height?: number
  className?: string
}) {
  return (
    <span aria-hidden className={`skeleton block ${className ?? ''}`} style={{ width, height }} />
  )
}

// Fixed widths in pixels, so that the bars do not change between renders.
const WIDTHS = [88, 56, 104, 72, 48, 96, 64, 80, 120, 60, 92]

export function TableSkeleton({ columns, rows = 8 }: { columns: number; rows?: number }) {
  return (
    <div role="status" aria-label="Loading" className="breathing overflow-hidden">
      {Array.from({ length: rows }, (_, row) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: rows of a skeleton have no identity
          key={row}
          className="flex h-9 items-center gap-6 border-b px-5"
          style={{ opacity: 1 - row / (rows + 2) }}
        >
          {Array.from({ length: columns }, (_, column) => (
            <span
              // biome-ignore lint/suspicious/noArrayIndexKey: cells of a skeleton have no identity
              key={column}
              className={column > 3 ? 'hidden flex-1 md:block' : 'flex-1'}
            >
              <Skeleton
                width={WIDTHS[(row * 5 + column * 3) % WIDTHS.length]}
                height={11}
                className="max-w-full"
              />
            </span>
          ))}
        </div>
      ))}
    </div>
  )
}

export function ChartSkeleton({ height = 180 }: { height?: number }) {
  return (
    <div
      role="status"
      aria-label="Loading"
      className="breathing flex items-end gap-1.5 px-5"
      style={{ height }}
    >
      {[38, 52, 71, 90, 100, 84, 66, 49, 37, 28, 20, 14].map((percent) => (
        <span key={percent} className="skeleton flex-1" style={{ height: `${percent * 0.82}%` }} />
      ))}
    </div>
  )
}
