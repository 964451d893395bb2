import type { ReactNode, Ref } from 'react'

/** A part of the page that scrolls by itself: named, and reachable by key, because a wheel is not given to all. */
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
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by key (WCAG 2.1.1)
    <section ref={ref ?? null} aria-label={label} tabIndex={0} className={className}>
      {children}
    </section>
  )
}
