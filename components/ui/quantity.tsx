import type { Quantity as QuantityParts } from '../format/numbers.ts'

export function Quantity({ of, className }: { of: QuantityParts; className?: string }) {
  return (
    <span className={`num whitespace-nowrap ${className ?? ''}`}>
      {of.value}
      {of.unit && <span className="unit">&nbsp;{of.unit}</span>}
    </span>
  )
}
