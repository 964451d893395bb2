import type { ReactNode, Ref } from 'react'

export function Scroll({
  label,
  className = 'overflow-x-auto scroll-x',
  ref,
  children,
}: {
  label: string
  className?: string
  ref?: Ref<HTMLElement>
  children: ReactNode
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be focusable (WCAG 2.1.1)
    <section ref={ref ?? null} aria-label={label} tabIndex={0} className={className}>
      {children}
    </section>
  )
}
