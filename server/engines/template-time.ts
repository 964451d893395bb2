const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
]

const two = (n: number) => String(n).padStart(2, '0')

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  Y: (d) => String(d.getFullYear()),
  y: (d) => two(d.getFullYear() % 100),
  m: (d) => two(d.getMonth() + 1),
  B: (d) => MONTHS[d.getMonth()] as string,
  b: (d) => (MONTHS[d.getMonth()] as string).slice(0, 3),
  d: (d) => two(d.getDate()),
  e: (d) => String(d.getDate()).padStart(2, ' '),
  A: (d) => DAYS[d.getDay()] as string,
  a: (d) => (DAYS[d.getDay()] as string).slice(0, 3),
  H: (d) => two(d.getHours()),
  I: (d) => two(d.getHours() % 12 || 12),
  M: (d) => two(d.getMinutes()),
  S: (d) => two(d.getSeconds()),
  p: (d) => (d.getHours() < 12 ? 'AM' : 'PM'),
  F: (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`,
  T: (d) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`,
  '%': () => '%',
}

/**
 * Formats a time like Python's `strftime`, always in English, for `strftime_now` of templates. @throws Error for an
 * unknown directive, so that no prompt contains `%Q`
 */
export function formatTime(date: Date, format: string): string {
  return format.replace(/%([-#]?)(.?)/gs, (_, unpadded: string, letter: string) => {
    const directive = DIRECTIVES[letter]
    if (directive === undefined) throw new Error(`strftime_now knows no %${unpadded}${letter}`)
    const text = directive(date)
    return unpadded === '' ? text : text.replace(/^[0 ]+(?=\d)/, '')
  })
}
