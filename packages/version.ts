import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

// The service and its clients share the version of the root's package.json. `npm version --no-git-tag-version` sets it,
// and this script writes it into the other files.

const ROOT = join(import.meta.dirname, '..')

const COPIES: readonly { file: string; pattern: RegExp }[] = [
  { file: 'packages/client-typescript/package.json', pattern: /(?<="version": ")[^"]+/ },
  {
    file: 'packages/client-typescript/src/reach.ts',
    pattern: /(?<=CLIENT_VERSION = ')[^']+/,
  },
  { file: 'packages/math-verify/package.json', pattern: /(?<="version": ")[^"]+/ },
  { file: 'packages/client-python/src/rewardops/_version.py', pattern: /(?<=VERSION = ")[^"]+/ },
]

export function ownVersion(): string {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  return version
}

export function copiedVersions(): Record<string, string | undefined> {
  return Object.fromEntries(
    COPIES.map(({ file, pattern }) => [file, pattern.exec(read(file))?.[0]]),
  )
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

if (import.meta.main) {
  for (const { file, pattern } of COPIES) {
    writeFileSync(join(ROOT, file), read(file).replace(pattern, ownVersion()))
  }
}
