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

/**
 * Each of these files has a test process of its own. Most start services or other processes and take up to a minute, so
 * they begin first: begun last, one of them runs alone in the end.
 */
const ISOLATED = [
  'server/integration/**/*.test.ts',
  'server/rewards/functions/*.test.ts',
  'server/router/scenarios/*.test.ts',
  'server/store/postgres/*.test.ts',
  'server/{cluster,worker,model-servers}/*.test.ts',
  'packages/{cli,client-*}/**/*.test.ts',
  'testkit/chaos/*.test.ts',
  'examples/**/*.test.ts',
  'scripts/*.test.ts',
  // Mocks a module that other files load unmocked.
  'server/router/guarded-fetch.test.ts',
]

class IsolatedFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) => (project.name === 'isolated' ? 0 : 1)
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

const EXCLUDED = [
  ...configDefaults.exclude,
  '**/.next/**',
  '**/.data/**',
  'e2e/**',
  ...(full ? [] : ['**/*.full.test.ts']),
]

const BOTH = {
  environment: 'node',
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 60_000,
} as const

// The projects do not extend this configuration: each would run its global set-up again.
export default defineConfig({
  test: {
    projects: [
      { test: { ...BOTH, name: 'isolated', include: ISOLATED, exclude: EXCLUDED } },
      {
        test: {
          ...BOTH,
          name: 'units',
          include: ['**/*.test.ts', '**/*.test.tsx'],
          exclude: [...EXCLUDED, ...ISOLATED],
          // 150 files share their imports: a process of its own costs each 0.2 s of CPU time.
          isolate: false,
        },
      },
    ],
    globalSetup: ['server/store/postgres/test-setup.ts'],
    // One more than the cores of the smallest machine, because suites with their own services wait about a third of the time.
    maxWorkers: 3,
    sequence: { sequencer: IsolatedFirst },
    passWithNoTests: true,
  },
})
