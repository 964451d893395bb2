import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const CLIENT = join(import.meta.dirname, '../../packages/client-python')

const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))'])
const missing = python.status !== 0
if (missing) {
  console.warn('python3 (3.9 or newer) is not installed: tests of the Python client are skipped')
}

function environment(): NodeJS.ProcessEnv {
  const { PATH, HOME, NODE_ENV } = process.env
  return { PATH, HOME, NODE_ENV, PYTHONPATH: join(CLIENT, 'src') }
}

describe.skipIf(missing)('the Python client', () => {
  const files = readdirSync(join(CLIENT, 'tests')).filter((file) => /^test_.*\.py$/.test(file))
  const withService = files.filter((file) =>
    readFileSync(join(CLIENT, 'tests', file), 'utf8').includes('@requires_service'),
  )
  // These files run concurrently, because they mostly wait.
  it.concurrent.each(files.filter((file) => !withService.includes(file)))(
    'passes its own suite: %s',
    passes,
    180_000,
  )
  // These files run sequentially, because each starts its own service.
  it.each(withService)('passes its own suite against the service: %s', passes, 180_000)

  async function passes(file: string): Promise<void> {
    const args = ['-m', 'unittest', 'discover', '-t', '.', '-s', 'tests', '-p', file]
    const child = spawn('python3', args, {
      cwd: CLIENT,
      env: environment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const [code] = await once(child, 'close')
    expect(code, said).toBe(0)
    expect(said).toMatch(/^Ran [1-9]\d* tests?/m)
    const skipped = /\(skipped=\d+\)/.exec(said)
    if (skipped) console.warn(`${file}: packages are missing ${skipped[0]}; see the file for them`)
  }
})
