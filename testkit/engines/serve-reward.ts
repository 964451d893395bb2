import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Service } from '../service/service.ts'
import { waitFor } from '../service/wait-for.ts'
import { ended, samplesOf, submit } from './batches.ts'
import { scriptPath } from './cache.ts'
import { messageOf, must, type Outcome } from './checks.ts'

const CLIENT = join(import.meta.dirname, '../../packages/client-python/src')
const MODEL = 'zero-or-one'

/** Name of the check of `rewardops serve-reward`, which needs no engine. */
export const SERVE_REWARD_CHECK = 'registration and scores of a 0/1 function'

export async function checkServeReward(service: Service): Promise<Outcome> {
  const check = SERVE_REWARD_CHECK
  const child = spawn(
    process.env.REWARDOPS_ENGINES_PYTHON ?? 'python3',
    [
      ...['-m', 'rewardops', 'serve-reward', `${scriptPath('zero_or_one.py')}:compute_score`],
      ...['--json', '--register', service.url, '--model', MODEL],
    ],
    { env: { ...process.env, PYTHONPATH: CLIENT }, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  try {
    const detail = await run(service, () => {
      if (child.exitCode !== null)
        throw new Error(`the command ended with exit code ${child.exitCode}: ${output}`)
      return output.includes('"registered"')
    })
    return { release: 'serve-reward', check, ok: true, detail }
  } catch (error) {
    return { release: 'serve-reward', check, ok: false, detail: messageOf(error) }
  } finally {
    child.kill('SIGKILL')
  }
}

async function run(service: Service, isRegistered: () => boolean): Promise<string> {
  await waitFor('the function to be registered', isRegistered, 60_000)
  const list = await service.api.servers.list.query()
  const server = list.find(({ model }) => model === MODEL)
  must(server !== undefined, 'the server is not in the list')
  const { state, stateCause } = server!
  must(state === 'ready', `${state}: ${stateCause}`)
  const samples = samplesOf(200, 'zero-or-one')
  samples.forEach((sample, i) => {
    sample.response = i % 2 === 0 ? `It is 42 (${'x'.repeat(i)})` : `It is nine (${'x'.repeat(i)})`
  })
  const { results } = await ended(service, await submit(service, MODEL, samples))
  const wrong = results.score.findIndex((score, i) => score !== (i % 2 === 0 ? 1 : 0))
  must(wrong === -1, `sample ${wrong} scored ${results.score[wrong]}`)
  return 'ready; 200 scored 0 or 1'
}
