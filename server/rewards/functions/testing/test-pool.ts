import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FunctionRef } from '../../../contract/resolved-reward.ts'
import { createLogger } from '../../../log.ts'
import type { RewardRouter } from '../../../router/router-types.ts'
import type { RewardSample } from '../../managers/manager.ts'
import { FunctionPool, type FunctionPoolOptions } from '../function-pool.ts'
import type { FunctionSource } from '../function-source.ts'
import { TEST_PLAN } from './test-plan.ts'

const FUNCTIONS = fileURLToPath(new URL('../', import.meta.url))

export interface TestPool {
  pool: FunctionPool
  ref(text: string, fields?: Partial<FunctionRef> & { files?: Record<string, string> }): FunctionRef
  lines: { level: string; message: string; fields: Record<string, unknown> }[]
  close(): Promise<void>
}

const { NODE_COMPILE_CACHE } = process.env
/** Environment of the function processes in tests. With the compile cache, a process starts in a third of the time. */
export const FUNCTION_ENV: Record<string, string> = {
  PATH: '/usr/bin:/bin',
  ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
}

/** Fills the compile cache. Function processes cannot: Node writes the cache at exit, and they end by SIGKILL. */
function fillCompileCache(): void {
  const files = ['find-target', 'group-calls', 'host-call', 'host-frames', 'read-result']
  const imports = files.map((file) => `import ${JSON.stringify(`${FUNCTIONS}${file}.ts`)}\n`)
  spawnSync(process.execPath, ['--input-type=module', '-e', imports.join('')])
}
if (NODE_COMPILE_CACHE !== undefined) fillCompileCache()

export function testPool(given: Partial<FunctionPoolOptions> = {}): TestPool {
  const dir = mkdtempSync(join(tmpdir(), 'rewardops-functions-'))
  chmodSync(dir, 0o755)
  const sources = new Map<string, FunctionSource>()
  const lines: TestPool['lines'] = []
  const log = createLogger('silent', 'test')
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    log[level] = ((fields: Record<string, unknown>, message: string) => {
      lines.push({ level, message, fields })
    }) as never
  }
  const pool = new FunctionPool({
    settings: { env: FUNCTION_ENV, memoryBytes: 256 << 20, plan: TEST_PLAN },
    versionsDir: join(dir, 'versions'),
    functionsDir: join(dir, 'none'),
    sources: async (hash) => sources.get(hash) ?? null,
    router: { models: () => [] } as unknown as RewardRouter,
    maxProcesses: 2,
    rewardRouterAddress: '127.0.0.1:3000',
    log,
    ...given,
  })
  return {
    pool,
    lines,
    ref(text, { files, ...fields } = {}) {
      const path = fields.path ?? 'reward.ts'
      const all = { ...files, [path]: text }
      const hash = createHash('sha256').update(JSON.stringify(all)).digest('hex')
      sources.set(hash, { hash, path, files: all })
      return { hash, path, name: null, kwargs: {}, ...fields }
    },
    async close() {
      await pool.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Returns a sample for a test function, whose behavior depends on the response. */
export function sampleOf(solutionStr: string, fields: Partial<RewardSample> = {}): RewardSample {
  return {
    dataSource: 'mine',
    prompt: 'What is 6 × 7?',
    solutionStr,
    groundTruth: '42',
    extraInfo: {},
    responseLength: 3,
    ...fields,
  }
}

export function lives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
