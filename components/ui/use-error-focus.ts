import { type RefObject, useEffect, useRef } from 'react'

export function firstError(place: Pick<HTMLElement, 'querySelector'>): HTMLElement | null {
  return (
    place.querySelector<HTMLElement>('[aria-invalid="true"]:not(:disabled)') ??
    place.querySelector<HTMLElement>('[role="alert"]')
  )
}

/**
 * Moves the focus to the first error in `place` after the form or the service refused a submit. Call `submitted` on
 * each submit.
 * @param busy whether the service has not responded yet
 */
export function useErrorFocus<Place extends HTMLElement>(
  busy: boolean,
): { place: RefObject<Place | null>; submitted(): void } {
  const place = useRef<Place>(null)
  const isBusy = useRef(busy)
  const isAwaited = useRef(false)
  const show = () => {
    if (!isAwaited.current || isBusy.current) return
    const error = place.current && firstError(place.current)
    if (!error) return
    isAwaited.current = false
    if (error.getAttribute('role') === 'alert') error.tabIndex = -1
    error.focus({ preventScroll: true })
    // Focusing alone can leave the element behind the sticky footer of a sheet.
    error.scrollIntoView({ block: 'center' })
  }
  // This effect runs after every render, because a busy page may render the error after the timer of `submitted`.
  useEffect(() => {
    isBusy.current = busy
    if (!busy && isAwaited.current) setTimeout(show)
  })
  const submitted = () => {
    isAwaited.current = true
    setTimeout(show)
  }
  return { place, submitted }
}
