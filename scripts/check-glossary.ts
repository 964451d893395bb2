import { globSync, readFileSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'

/** A phrase that docs/glossary.json bans. */
export interface BannedPhrase {
  phrase: string
  replacement: string
  /**
   * `ui`: app/ and components/. `docs`: Markdown. `text`: Markdown and TypeScript, tests included. `identifier`: names
   * in TypeScript, case-sensitive.
   */
  scope: 'ui' | 'docs' | 'text' | 'identifier'
  /** Globs of exempt files, or allowed texts that contain the phrase. */
  exceptions?: string[]
}

const FILES: Record<BannedPhrase['scope'], RegExp> = {
  ui: /^(app|components)\/(?!.*\.test\.).*\.tsx?$/,
  docs: /\.md$/,
  text: /\.(md|tsx?)$/,
  identifier: /\.tsx?$/,
}
const SKIPPED = /(^|\/)(\.[^/]+|node_modules|generated|dist|test-results)$/

export function checkGlossary(root: string, banned: readonly BannedPhrase[]): string[] {
  const files = globSync('**/*.{md,ts,tsx}', { cwd: root, exclude: (path) => SKIPPED.test(path) })
  const findings: string[] = []
  for (const file of files.sort()) {
    const rules = banned.filter(({ scope }) => FILES[scope].test(file))
    if (rules.length === 0) continue
    const text = readFileSync(join(root, file), 'utf8')
    for (const { phrase, replacement, scope, exceptions = [] } of rules) {
      if (exceptions.some((glob) => matchesGlob(file, glob))) continue
      const flags = scope === 'identifier' ? 'g' : 'gi'
      const allowed = exceptions.reduce((rest, one) => rest.replaceAll(one, masked), text)
      for (const { index } of allowed.matchAll(new RegExp(patternOf(phrase), flags))) {
        const line = text.slice(0, index).split('\n').length
        findings.push(`${file}:${line}: "${phrase}": write "${replacement}"`)
      }
    }
  }
  return findings
}

/** Matches whole words with any white space between them, so that line breaks do not hide a phrase. */
function patternOf(phrase: string): string {
  const words = phrase.split(' ').map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return `(?<![\\w-])${words.join('\\s+')}(?![\\w-])`
}

function masked(text: string): string {
  return text.replace(/\S/g, '·')
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..')
  const banned: BannedPhrase[] = JSON.parse(readFileSync(join(root, 'docs/glossary.json'), 'utf8'))
  const findings = checkGlossary(root, banned)
  for (const finding of findings) console.log(finding)
  if (findings.length > 0) process.exitCode = 1
}
