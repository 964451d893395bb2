import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const full = process.env.REWARDOPS_TEST_FULL === '1'

// Real rollouts and verdicts that do not come with the repository: tests that need them say so and
// are skipped where they are missing.
const data = join(import.meta.dirname, '../shared/data')
if (!existsSync(data)) {
  console.warn(`vitest: ${data} is not there; tests against real rollouts and verdicts are skipped`)
}

/** Suites with services of their own take up to a minute: begun last, one of them runs alone in the end. */
const LONG =
  /\/server\/integration\/|\/packages\/client-|emulated-trainer|packages\/cli\/main|service-client|function-pool|rate-permits|scenarios|embedded|demo\.test/

class LongOnesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isShort = ({ moduleId }: TestSpecification) => (LONG.test(moduleId) ? 0 : 1)
    return (await super.sort(files)).toSorted((a, b) => isShort(a) - isShort(b))
  }
}

export default defineConfig({
  test: {
    environment: 'node',
    include: ['**/*.test.ts', '**/*.test.tsx'],
    exclude: [
      ...configDefaults.exclude,
      '**/.next/**',
      '**/.data/**',
      'e2e/**',
      ...(full ? [] : ['**/*.full.test.ts']),
    ],
    globalSetup: ['server/store/postgres/test-setup.ts'],
    pool: 'forks',
    // One more than the smallest machine has cores: suites with services of their own wait about a third of their time.
    maxWorkers: 3,
    sequence: { sequencer: LongOnesFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    passWithNoTests: true,
  },
})
