/** Major, minor, patch. */
export type Release = readonly [number, number, number]

/** Whether a version ("0.11.0", "0.12.0rc1") is older than a release; an unreadable one is not. */
export function before(version: string, release: Release): boolean {
  const match = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version)
  if (match === null) return false
  for (let i = 0; i < 3; i++) {
    const difference = Number(match[i + 1] ?? 0) - (release[i] as number)
    if (difference !== 0) return difference < 0
  }
  return false
}
