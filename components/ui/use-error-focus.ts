import { type RefObject, useCallback, useEffect, useRef } from 'react'

/** The element of a form that shows its first error: an invalid field, otherwise the text of an error without a field. */
export function firstError(place: Pick<HTMLElement, 'querySelector'>): HTMLElement | null {
  return (
    place.querySelector<HTMLElement>('[aria-invalid="true"]:not(:disabled)') ??
    place.querySelector<HTMLElement>('[role="alert"]')
  )
}

/**
 * Moves the focus to the first error in `place` after a submit was refused, by the form or by the service. Call
 * `submitted` on each submit; `busy` says whether the service has not responded yet.
 */
export function useErrorFocus<Place extends HTMLElement>(
  busy: boolean,
): { place: RefObject<Place | null>; submitted(): void } {
  const place = useRef<Place>(null)
  const isBusy = useRef(busy)
  const isAwaited = useRef(false)
  const show = useCallback(() => {
    if (!isAwaited.current || isBusy.current) return
    isAwaited.current = false
    const error = place.current && firstError(place.current)
    if (!error) return
    if (error.getAttribute('role') === 'alert') error.tabIndex = -1
    error.focus({ preventScroll: true })
    // Focusing alone can leave the element behind the sticky footer of a sheet.
    error.scrollIntoView({ block: 'center' })
  }, [])
  useEffect(() => {
    isBusy.current = busy
    if (!busy) setTimeout(show)
  }, [busy, show])
  const submitted = () => {
    isAwaited.current = true
    // The page renders errors of the form, or a mutation's pending state, before this timer runs.
    setTimeout(show)
  }
  return { place, submitted }
}
