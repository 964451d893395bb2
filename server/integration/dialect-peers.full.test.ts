import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'

/**
 * The openrlhf dialect, called by OpenRLHF's own client from PyPI. Skipped if the client cannot be installed;
 * dialects.test.ts has the payloads that it sends.
 */

const DRIVER = join(import.meta.dirname, '../../testkit/service/dialect-peers/openrlhf.py')
const dir = mkdtempSync(join(tmpdir(), 'rewardops-peers-'))
const python = join(dir, 'bin/python')

/** OpenRLHF 0.10 sends empty lists to all URLs but the first; OpenRLHF 0.11 uses round robin. */
const VERSIONS = ['0.10.1', '0.11.2']
const site = (version: string) => join(dir, `openrlhf-${version}`)

function run(command: string, args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore', timeout: 240_000 }).status === 0
}

const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--retries', '1']
const installed =
  run('python3', ['-m', 'venv', dir]) &&
  run(python, [...pip, 'aiohttp']) &&
  VERSIONS.every((version) =>
    run(python, [...pip, '--no-deps', '--target', site(version), `openrlhf==${version}`]),
  )
if (!installed) console.warn('openrlhf could not be installed; its own client is not tested')

let service: Service

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1' } })
})

afterAll(() => stopCleanly(service, () => rmSync(dir, { recursive: true, force: true })))

describe.skipIf(!installed)('openrlhf’s own rollout executor', () => {
  it.each(VERSIONS)(
    'of version %s gets a reward for every rollout, from three reward URLs',
    (version) => {
      const name = `openrlhf-${version}`
      const urls = ['a', 'b', 'c'].map(
        (at) => `${service.url}/compat/openrlhf/${name}-${at}?dataSource=openai/gsm8k&extra=acc`,
      )
      const prompt = '<|user|>48 + 24?<|assistant|>'
      const rollouts = Array.from({ length: 48 }, (_, i) => ({
        prompt,
        response: `Try ${i}.\n#### ${i % 2 === 0 ? 72 : i}`,
        label: '72',
      }))
      const { stdout, stderr, status } = spawnSync(python, [DRIVER], {
        input: JSON.stringify({ site: site(version), urls, rollouts }),
        encoding: 'utf8',
        timeout: 60_000,
      })
      expect(status, stderr).toBe(0)
      expect(stderr).not.toMatch(/error/i)
      const rewards = rollouts.map((_, i) => (i % 2 === 0 ? [1] : [0]))
      expect(JSON.parse(stdout)).toEqual(
        rewards.map((reward) => ({
          reward,
          scores: reward,
          extra_logs: { rm_failed: [0], acc: reward },
        })),
      )
    },
  )

  it('receives the substitute in the URL for a failed reward', () => {
    const at = `${service.url}/compat/openrlhf/failed?dataSource=openai/gsm8k&onFailure=-1`
    const { stdout, stderr } = spawnSync(python, [DRIVER], {
      input: JSON.stringify({
        site: site('0.11.2'),
        urls: [at],
        rollouts: [{ prompt: 'p', response: '#### 72', label: null }],
      }),
      encoding: 'utf8',
      timeout: 60_000,
    })
    expect(JSON.parse(stdout), stderr).toEqual([
      { reward: [-1], scores: [-1], extra_logs: { rm_failed: [1] } },
    ])
  })
})
