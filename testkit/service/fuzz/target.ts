import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROLES, type Role } from '../../../server/contract/roles.ts'
import type { SimulatedServers } from '../../processes/simulated-rm.ts'
import { rollouts } from '../rollouts.ts'
import type { Service } from '../service.ts'
import type { Target } from './calls.ts'

const RUNS = ['fuzz-1', 'fuzz-2', 'ünï/コード 100%']
const BATCHES = 8
/** Names below `.invalid` never resolve, and nothing listens on port 1, so no call leaves this machine. */
const ADDRESSES = ['http://127.0.0.1:1/', 'http://nowhere.invalid/', 'http://[::1]:1/v1']

export async function fillTarget(
  service: Service,
  rm: SimulatedServers,
  { adminKey, functions, pages }: { adminKey: string; functions: string; pages: boolean },
): Promise<Target> {
  const api = service.apiWith({ authorization: `Bearer ${adminKey}` })
  writeFileSync(
    join(functions, 'length.ts'),
    'export default ({ response }) => String(response).length',
  )
  await api.servers.register.mutate({ name: 'rm', url: rm.url })
  for (let n = 0; n < BATCHES; n++) {
    await api.batches.submit.mutate({
      run: RUNS[n % RUNS.length] as string,
      step: n,
      open: n === BATCHES - 1,
      samples: rollouts(16, 4).map((sample, i) => ({ ...sample, promptId: `p${i >> 2}` })),
      ...(n === 1 ? { reward: { model: rm.model } } : {}),
    })
  }
  await api.marks.create.mutate({ run: RUNS[0] as string, step: 1, label: 'mark' })
  await api.views.save.mutate({ page: 'samples', name: 'view', state: 'status=failed' })
  await api.alerts.create.mutate({ name: 'hook', url: ADDRESSES[0] as string })
  const keys = await Promise.all(
    ROLES.map((role: Role) => api.keys.create.mutate({ name: `fuzz ${role}`, role })),
  )
  const batches = Array.from({ length: BATCHES }, (_, i) => `b${i + 1}`)
  const samples = batches.flatMap((id) => [`${id}-0`, `${id}-7`])
  return {
    pages,
    authorizations: [
      // Most calls are an admin's, because they reach the most code.
      ...Array.from({ length: 12 }, () => `Bearer ${adminKey}`),
      ...keys.map(({ key }) => `Bearer ${key}`),
      ...[null, 'Bearer rwo_none', 'Basic Og==', `Bearer ${'x'.repeat(5_000)}`],
    ],
    known: {
      patterns: { '^b\\d{1,18}$': batches, '^b\\d{1,18}-\\d{1,9}$': samples },
      fields: {
        run: RUNS,
        runs: [RUNS],
        batch: batches,
        step: [0, 1, 2, 3],
        model: [rm.model, rm.model, 'none'],
        manager: ['naive', 'dapo', { path: 'length.ts' }],
        path: ['length.ts', '../../package.json', 'none.ts'],
        url: [rm.url, ...ADDRESSES],
        // Short, because a longer poll would only delay the test.
        waitMs: [0, 1, 20],
        timeoutMs: [50, 500, 5_000],
        policy: ['least_connections', 'round_robin', 'group_affinity'],
        columns: [['score'], ['rewardExtraInfo.acc', 'prompt']],
        tags: [['a'], ['b', 'c']],
        label: ['correct', 'reward hack'],
        dataSource: ['openai/gsm8k', 'math', 'none'],
        uid: ['q-0', 'q-1'],
        text: ['48', 'reward_model.reward_manager=dapo', 'a: &a [*a]'],
        cursor: [null, 'b3', 'x'],
        idempotencyKey: ['same', 'other', null],
      },
    },
  }
}
