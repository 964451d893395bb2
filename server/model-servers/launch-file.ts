import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { describeIssues } from '../contract/describe-issues.ts'
import { LaunchServerInput } from '../contract/servers.ts'
import { checkServerUrl } from '../router/server-admission.ts'
import { checkKind, readTemplate } from './admission.ts'

const Entries = z.array(LaunchServerInput)

/**
 * Reads the servers to launch from the JSON file that REWARDOPS_SERVERS_FILE names.
 * @throws Error that names the problem and its position but no value, because values may be keys
 */
export function readServersFile(path: string): LaunchServerInput[] {
  const wrong = (what: string): Error => new Error(`REWARDOPS_SERVERS_FILE=${path}: ${what}`)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw wrong(`cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    // V8's message quotes the text, which may hold a key, so only the position is kept.
    const at = /at position \d+(?: \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0]
    throw wrong(`is not valid JSON${at === undefined ? '' : ` (${at})`}`)
  }
  const parsed = Entries.safeParse(json)
  if (!parsed.success) throw wrong(describeIssues(parsed.error))
  for (const entry of parsed.data) {
    try {
      checkKind(entry.engine, entry.kind)
      readTemplate(entry, null)
    } catch (error) {
      throw wrong(`${entry.name}: ${(error as Error).message}`)
    }
    const url = checkServerUrl(entry.url ?? `http://127.0.0.1:${entry.port}`)
    if (!url.ok) throw wrong(`${entry.name}: url: ${url.message}`)
  }
  const names = parsed.data.map((entry) => entry.name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw wrong(`two servers are called "${twice}"`)
  return parsed.data
}
