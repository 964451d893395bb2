/** Delay after the `load` event, so that the palette's script is not part of a page's first load. */
const AFTER_LOAD_MS = 5_000

/** A failure is ignored, because opening the palette loads the script again. */
export function preloadPalette(): void {
  void import('./palette.tsx').catch(() => {})
}

export function preloadPaletteWhenIdle(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  const wait = () => {
    timer = setTimeout(() => {
      // Safari has no requestIdleCallback.
      if ('requestIdleCallback' in window) requestIdleCallback(preloadPalette)
      else preloadPalette()
    }, AFTER_LOAD_MS)
  }
  if (document.readyState === 'complete') wait()
  else window.addEventListener('load', wait, { once: true })
  return () => {
    window.removeEventListener('load', wait)
    clearTimeout(timer)
  }
}
