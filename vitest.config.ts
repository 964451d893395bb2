import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'

const full = process.env.REWARDOPS_TEST_FULL === '1'

// Real rollouts and verdicts that do not come with the repository: tests that need them say so and
// are skipped where they are missing.
const data = join(import.meta.dirname, '../shared/data')
if (!existsSync(data)) {
  console.warn(`vitest: ${data} is not there; tests against real rollouts and verdicts are skipped`)
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
    // As many as the smallest machine has cores: the suites start services and databases of their own.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    passWithNoTests: true,
  },
})
