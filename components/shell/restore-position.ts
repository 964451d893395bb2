import { useEffect, useLayoutEffect, useRef } from 'react'

const MAX_WAIT_MS = 3_000

interface Position {
  /** The link's `href` and its index among the links with this `href`, or null if no link has the focus. */
  link: { href: string; index: number } | null
  scrollPx: number
}

/**
 * Restores the focused link and the scroll position after Back or Forward, so that the keyboard continues at the row
 * that was opened. The browser restores neither: the link is a new element, and Next renders the page after the browser
 * has scrolled.
 */
export function useRestoredPosition(pathname: string): void {
  const rendered = useRef('')
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when another page is rendered
  useLayoutEffect(() => {
    rendered.current = location.pathname
  }, [pathname])
  useEffect(() => restorePositions(window, () => rendered.current === location.pathname), [])
}

export function restorePositions(
  view: Pick<
    Window,
    | 'addEventListener'
    | 'removeEventListener'
    | 'requestAnimationFrame'
    | 'cancelAnimationFrame'
    | 'scrollTo'
    | 'scrollY'
    | 'document'
    | 'location'
    | 'performance'
  >,
  isRendered: () => boolean,
): () => void {
  const { document } = view
  const positions = new Map<string, Position>()
  let frame = 0

  const linksTo = (href: string) =>
    [...document.querySelectorAll<HTMLElement>('a[href]')].filter(
      (link) => link.getAttribute('href') === href,
    )
  const remember = () => {
    // Between Back and the next render, events belong to the page that the user is leaving.
    if (!isRendered()) return
    const focused = document.activeElement?.closest<HTMLElement>('a[href]')
    const href = focused?.getAttribute('href')
    const link = focused && href ? { href, index: linksTo(href).indexOf(focused) } : null
    positions.set(view.location.href, { link, scrollPx: view.scrollY })
  }
  const restore = ({ link, scrollPx }: Position, before: Element | null): boolean => {
    // Scroll positions are rounded to the pixels of the screen.
    const isScrolled = () => Math.abs(view.scrollY - scrollPx) < 1
    if (!isScrolled()) view.scrollTo({ top: scrollPx, behavior: 'instant' })
    if (link === null) return isScrolled()
    const element = linksTo(link.href)[link.index]
    const { activeElement, body } = document
    // The page may have focused another element.
    if (activeElement === null || activeElement === body || activeElement === before)
      element?.focus({ preventScroll: true })
    return isScrolled() && element !== undefined
  }
  const stop = () => view.cancelAnimationFrame(frame)
  const onPop = () => {
    stop()
    const position = positions.get(view.location.href)
    // A page that stays rendered keeps its focus, and the browser restores its scroll position.
    if (position === undefined || isRendered()) return
    const before = document.activeElement
    const until = view.performance.now() + MAX_WAIT_MS
    const attempt = () => {
      if (isRendered() && restore(position, before)) return
      if (view.performance.now() < until) frame = view.requestAnimationFrame(attempt)
    }
    frame = view.requestAnimationFrame(attempt)
  }

  const listeners = [
    ['popstate', onPop],
    ['focusin', remember],
    ['scroll', remember],
    ['keydown', stop],
    ['pointerdown', stop],
    ['wheel', stop],
  ] as const
  for (const [event, listener] of listeners)
    view.addEventListener(event, listener, { capture: true, passive: true })
  return () => {
    stop()
    for (const [event, listener] of listeners)
      view.removeEventListener(event, listener, { capture: true })
  }
}
