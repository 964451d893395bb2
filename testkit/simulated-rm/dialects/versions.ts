/** A release: major, minor, patch. */
export type Release = readonly [number, number, number]

/** Whether a version ("0.11.0", "0.12.0rc1") is older than a release; false for an unreadable version. */
export function before(version: string, release: Release): boolean {
  const is = releaseOf(version)
  if (is === null) return false
  for (let i = 0; i < 3; i++) {
    const difference = (is[i] as number) - (release[i] as number)
    if (difference !== 0) return difference < 0
  }
  return false
}

/** Parsed versions, cached because a server needs its version several times per request. */
const read = new Map<string, Release | null>()

function releaseOf(version: string): Release | null {
  let release = read.get(version)
  if (release === undefined) {
    const match = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version)
    release = match && [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)]
    read.set(version, release)
  }
  return release
}
