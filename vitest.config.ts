import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const full = process.env.REWARDOPS_TEST_FULL === '1'

// The folder of real rollouts and verdicts, which is not part of the repository. Tests that need it are skipped
// without it.
const data = join(import.meta.dirname, '../shared/data')
if (!existsSync(data)) {
  console.warn(
    `vitest: ${data} does not exist; tests against real rollouts and verdicts are skipped`,
  )
}

/**
 * Each of these files has its own test process. Most start services or other processes and take up to a minute, so
 * they start first: a long file that starts last would run alone at the end.
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

// The projects do not extend this configuration, because each would run the global set-up again.
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
          // About 150 files share their imports. With a process for each, every file would take 0.2 s more CPU time.
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
