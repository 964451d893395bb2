/** Major, minor, patch. */
export type Version = readonly [number, number, number]

/**
 * Whether `version` ("0.11.0", "0.12.0rc1", "0.11.1.dev7+gabc") is older than `other`. Only the three numbers count. An
 * unreadable version counts as current, so the result is false.
 */
export function versionBefore(version: string, other: Version): boolean {
  const match = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version)
  if (match === null) return false
  for (let i = 0; i < 3; i++) {
    const mine = Number(match[i + 1] ?? 0)
    const theirs = other[i] as number
    if (mine !== theirs) return mine < theirs
  }
  return false
}
