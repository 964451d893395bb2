/** Relative time: `now`, `12 s ago`, `3 min ago`, `2 h ago`, `5 d ago`. A time slightly in the future counts as now. */
export function formatAgo(atMs: number, nowMs: number): string {
  const seconds = Math.floor((nowMs - atMs) / 1000)
  if (seconds < 2) return 'now'
  return `${ageText(nowMs - atMs)} ago`
}

/** An age in one unit: `12 s`, `3 min`, `2 h`, `5 d`. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  if (seconds < 60) return `${seconds}\u00a0s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}\u00a0min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours}\u00a0h` : `${Math.floor(hours / 24)}\u00a0d`
}

/** Local clock time with seconds, 24 hours: `14:02:11`. */
export function clockTime(atMs: number): string {
  const d = new Date(atMs)
  return [d.getHours(), d.getMinutes(), d.getSeconds()]
    .map((n) => String(n).padStart(2, '0'))
    .join(':')
}

/** Local clock time to the minute: `14:02`. */
export function minuteTime(atMs: number): string {
  return clockTime(atMs).slice(0, 5)
}

/** Local date and time to the second: `2026-11-20 14:02:11`. */
export function dateTime(atMs: number): string {
  const d = new Date(atMs)
  const day = [d.getFullYear(), d.getMonth() + 1, d.getDate()]
    .map((n) => String(n).padStart(2, '0'))
    .join('-')
  return `${day} ${clockTime(atMs)}`
}
