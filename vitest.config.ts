import { existsSync, readFileSync } from 'node:fs'
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
 * Most of these files start services or other processes and take up to a minute, so they start first: a long file that
 * starts last would run alone at the end.
 */
const SERVICES = [
  'server/integration/**/*.test.ts',
  'server/rewards/functions/*.test.ts',
  'server/router/scenarios/*.test.ts',
  'server/store/postgres/*.test.ts',
  'server/{cluster,worker,model-servers,sandbox}/*.test.ts',
  'packages/{cli,client-*}/**/*.test.ts',
  'testkit/chaos/*.test.ts',
  'examples/**/*.test.ts',
  'scripts/*.test.ts',
]

/** Each of these files has its own test process. */
const ISOLATED = [
  // Listens to the uncaught errors of its process.
  'server/rewards/functions/hostile-messages.test.ts',
  // Mocks a module that other files load unmocked.
  'server/router/guarded-fetch.test.ts',
  // Some full tests measure their process's memory, or take minutes.
  '**/*.full.test.ts',
]

const ORDER = ['services', 'isolated', 'units']

/** Whether a file shares a service. These files run first and in a row, so that the service can stop early. */
const sharesService = ({ moduleId }: TestSpecification) =>
  readFileSync(moduleId, 'utf8').includes('sharedService(')

class ServicesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // Each file is read once, not in each comparison.
    const ranked = (await super.sort(files)).map((file) => ({
      file,
      rank: sharesService(file) ? -1 : ORDER.indexOf(file.project.name),
    }))
    return ranked.toSorted((a, b) => a.rank - b.rank).map(({ file }) => file)
  }
}

const EXCLUDED = [
  ...configDefaults.exclude,
  '**/.next/**',
  '**/.data/**',
  'e2e/**',
  ...(full ? [] : ['**/*.full.test.ts']),
]

const ALL = {
  environment: 'node',
  pool: 'forks',
  // These limits only end a test that would wait forever. A test with two starts of a service can take 60 s on a busy
  // machine.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // The default of 1 s is too short for a busy machine.
  expect: { poll: { timeout: 30_000 } },
} as const

// The projects do not extend this configuration, because each would run the global set-up again. Files share a process
// and its imports (`isolate: false`): with its own process, every file would take 0.2 to 1 s more CPU time.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...ALL,
          name: 'services',
          include: SERVICES,
          exclude: [...EXCLUDED, ...ISOLATED],
          isolate: false,
        },
      },
      {
        test: {
          ...ALL,
          name: 'isolated',
          include: ISOLATED,
          exclude: EXCLUDED,
          // Some full tests measure times, so each file runs alone on the machine, after all other files.
          ...(full ? { maxWorkers: 1, sequence: { groupOrder: 1 } } : {}),
        },
      },
      {
        test: {
          ...ALL,
          name: 'units',
          include: ['**/*.test.ts', '**/*.test.tsx'],
          exclude: [...EXCLUDED, ...SERVICES, ...ISOLATED],
          isolate: false,
        },
      },
    ],
    globalSetup: ['server/store/postgres/test-setup.ts'],
    // One more than the number of cores of the smallest machine, because suites with their own services wait a third of
    // the time.
    maxWorkers: 3,
    sequence: { sequencer: ServicesFirst },
    passWithNoTests: true,
  },
})
