import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

/** The part of the Python client's own suite that needs no service. `python-client.full.test.ts` runs all of it. */

const CLIENT = join(import.meta.dirname, '../../packages/client-python')

const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))'])
const missing = python.status !== 0
if (missing) {
  console.warn('python3 (3.9 or newer) is not installed: tests of the Python client are skipped')
}

it.skipIf(missing)('the Python client converts samples, rewards and turns', () => {
  const { PATH, HOME, NODE_ENV } = process.env
  const done = spawnSync('python3', ['-m', 'unittest', 'tests.test_samples', 'tests.test_turns'], {
    cwd: CLIENT,
    env: { PATH, HOME, NODE_ENV, PYTHONPATH: join(CLIENT, 'src') },
    encoding: 'utf8',
  })
  expect(done.status, done.stderr).toBe(0)
  expect(done.stderr).toMatch(/^Ran [1-9]\d* tests?/m)
})
