import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { freePort } from '../../testkit/processes/port.ts'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { rollouts, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const isInstalled = ['prometheus', 'promtool'].every(
  (program) => spawnSync(program, ['--version']).status === 0,
)
if (!isInstalled)
  console.warn('prometheus is not installed: the tests of rules and panels are skipped')

const DEPLOY = join(import.meta.dirname, '../../deploy')
const RULES = join(DEPLOY, 'prometheus/rules.yaml')

interface Rule {
  record?: string
  alert?: string
  expr: string
}
interface Panel {
  title: string
  targets?: { expr: string }[]
}

describe.skipIf(!isInstalled)('Prometheus', () => {
  const dir = mkdtempSync(join(tmpdir(), 'rewardops-prometheus-'))
  let service: Service | undefined
  let rm: SimulatedServers | undefined
  let prometheus: ChildProcess | undefined
  let url = ''

  beforeAll(async () => {
    ;[service, rm] = await Promise.all([Service.start(), startSimulatedServers(['--servers', '2'])])
    for (const [i, address] of rm.urls.entries()) {
      await service.api.servers.register.mutate({ name: `rm-${i}`, url: address })
    }
    url = await startPrometheus()
  })
  afterAll(async () => {
    if (prometheus?.exitCode === null) {
      prometheus.kill('SIGTERM')
      await once(prometheus, 'exit')
    }
    rmSync(dir, { recursive: true, force: true })
    await stopCleanly(service, () => rm?.stop())
  })

  async function startPrometheus(): Promise<string> {
    const target = new URL(service?.url as string).host
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [RULES],
      scrape_configs: [{ job_name: 'rewardops', static_configs: [{ targets: [target] }] }],
    }
    const file = join(dir, 'prometheus.yml')
    writeFileSync(file, JSON.stringify(config))
    const address = `127.0.0.1:${await freePort()}`
    prometheus = spawn(
      'prometheus',
      [
        `--config.file=${file}`,
        `--storage.tsdb.path=${join(dir, 'data')}`,
        `--web.listen-address=${address}`,
        '--log.level=warn',
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    )
    const at = `http://${address}`
    await waitFor('Prometheus', async () => {
      if (prometheus?.exitCode !== null) throw new Error('Prometheus ended')
      return (await fetch(`${at}/-/ready`).catch(() => null))?.ok
    })
    return at
  }

  async function seriesOf(expr: string): Promise<number> {
    const answer = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query: expr })}`)
    const { status, error, data } = await answer.json()
    if (status !== 'success') throw new Error(`${expr}: ${error}`)
    return data.result.length
  }

  async function expectData(expressions: ReadonlyMap<string, string>): Promise<void> {
    const missing = new Map(expressions)
    let step = 0
    await waitFor(
      'data of every expression',
      async () => {
        step++
        const { batchId } = await (service as Service).api.batches.submit.mutate({
          run: 'observed',
          step,
          split: step % 4 === 0 ? 'val' : 'train',
          samples: [...rollouts(64, 8, `s${step}`), sample({ uid: 'none', groundTruth: null })],
          reward: {
            combine: [
              { name: 'rm', reward: { model: (rm as SimulatedServers).model } },
              { name: 'correct', reward: { function: { name: 'gsm8k' } } },
            ],
          },
        })
        await (service as Service).api.batches.wait.query({ batchId, waitMs: 30_000 })
        for (const [name, expr] of missing) if ((await seriesOf(expr)) > 0) missing.delete(name)
        return missing.size === 0
      },
      120_000,
    ).catch((error: Error) => {
      throw new Error(`${error.message}; no data of:\n${[...missing.keys()].join('\n')}`)
    })
  }

  it('accepts the rules, which pass their own tests', () => {
    const promtool = (...args: string[]) => execFileSync('promtool', args, { encoding: 'utf8' })
    expect(promtool('check', 'rules', RULES)).toContain('SUCCESS')
    expect(promtool('test', 'rules', RULES.replace('.yaml', '.test.yaml'))).toContain('SUCCESS')
  })

  it('has data for every rule', { timeout: 180_000 }, async () => {
    const { groups } = parse(readFileSync(RULES, 'utf8')) as { groups: { rules: Rule[] }[] }
    const expressions = groups.flatMap(({ rules }) =>
      rules.flatMap(({ record, alert, expr }) =>
        record !== undefined
          ? [[record, record] as const]
          : selectorsOf(expr).map((selector) => [`${alert}: ${selector}`, selector] as const),
      ),
    )
    expect(expressions.length).toBeGreaterThan(20)
    await expectData(new Map(expressions))
  })

  it('has data for every panel of the dashboard', { timeout: 180_000 }, async () => {
    const { panels } = JSON.parse(readFileSync(join(DEPLOY, 'grafana/rewardops.json'), 'utf8')) as {
      panels: Panel[]
    }
    const expressions = panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => [`${title}: ${expr}`, filled(expr)] as const),
    )
    expect(expressions.length).toBeGreaterThan(25)
    await expectData(new Map(expressions))
  })

  it('reports no alert of a service that works, except for its failing samples', async () => {
    // At the start, samples are pending while no rate is known yet. The alert that this causes ends before it fires.
    const alerts = async () => {
      const { data } = await (await fetch(`${url}/api/v1/alerts`)).json()
      const names = new Set(
        data.alerts.map((alert: { labels: { alertname: string } }) => alert.labels.alertname),
      )
      names.delete('RewardopsSamplesFail')
      return [...names]
    }
    await expect.poll(alerts).toEqual([])
  })
})

function selectorsOf(expr: string): string[] {
  return expr.match(/\b(?:\w+:)?rewardops_\w+(?::\w+)?(?:\{[^}]*\})?/g) ?? []
}

function filled(expr: string): string {
  return expr
    .replaceAll('$__rate_interval', '30s')
    .replaceAll('$job', 'rewardops')
    .replaceAll(/\$(run|server)\b/g, '.*')
}
