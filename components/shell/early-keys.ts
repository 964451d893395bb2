/**
 * Applies a key that was pressed before the palette's search field had the focus. Returns the new query, or null for
 * Escape, which cancels.
 */
export function queryAfter(query: string, key: string): string | null {
  if (key === 'Escape') return null
  if (key === 'Backspace') return [...query].slice(0, -1).join('')
  // Keys without a character have names of two or more letters.
  return [...key].length === 1 ? query + key : query
}

/**
 * Collects the keys that are pressed while the palette opens, until its field has the focus. The palette's script may
 * take seconds to load on a busy machine.
 * @param target the window
 * @returns a function that stops collecting
 */
export function collectKeys(
  target: Pick<EventTarget, 'addEventListener' | 'removeEventListener'>,
  onQuery: (query: string) => void,
  onCancel: () => void,
): () => void {
  let query = ''
  const onKey = (raw: Event) => {
    const event = raw as KeyboardEvent
    if (event.isComposing) return
    event.stopPropagation()
    const { key } = event
    // AltGr types characters and counts as Ctrl and Alt on Windows.
    const isCommand =
      (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState('AltGraph')
    if (isCommand) {
      // By default, Ctrl+K focuses the address bar or the search field of the browser.
      if (key.toLowerCase() === 'k' && !event.altKey) event.preventDefault()
      return
    }
    const next = queryAfter(query, key)
    // Enter would press the focused button. Other keys, such as F5, remain the browser's.
    if (next !== query || key === 'Enter' || key === 'Backspace') event.preventDefault()
    if (next === null) onCancel()
    else if (next !== query) {
      query = next
      onQuery(query)
    }
  }
  // In the capture phase, this handler runs before the page's handlers.
  target.addEventListener('keydown', onKey, { capture: true })
  return () => target.removeEventListener('keydown', onKey, { capture: true })
}
