import { describe, expect, test } from 'vitest'
import { FULL } from '../../../testkit/service/full-run.ts'
import type { ImportedConfigDto } from '../../contract/rewards.ts'
import { LaunchServerInput } from '../../contract/servers.ts'
import { RewardSpec } from '../../contract/trainer.ts'
import { importConfig } from './import-config.ts'
import { nearestKey } from './nearest-key.ts'
import { current, legacy } from './testing/upstream-yaml.ts'

/** A section's keys without the section's name, as in verl's component file. */
const fileOf = (text: string, section: string) =>
  text
    .slice(text.indexOf(`${section}:\n`) + section.length + 2)
    .split(/\n(?=\S)/)[0]!
    .replace(/^ {2}/gm, '')

const statusOf = (config: ImportedConfigDto, key: string) =>
  config.keys.find((report) => report.key === key)?.status
const messages = (config: ImportedConfigDto) =>
  config.problems.map(({ message }) => message).join('\n')

const STATUSES = ['supported', 'not_applicable', 'unknown', 'unresolved']

function expectWhole(config: ImportedConfigDto): void {
  expect(
    config.keys.filter(({ note, status }) => note === '' || !STATUSES.includes(status)),
  ).toEqual([])
  expect(RewardSpec.safeParse(config.reward).success).toBe(true)
  for (const server of config.servers) {
    expect(LaunchServerInput.safeParse(server).error?.issues ?? []).toEqual([])
  }
}

describe('verl’s own configuration', () => {
  test.each([
    ['old shape', legacy, 'legacy', 1],
    ['new shape', current, 'current', 8],
    ['old shape, component file', fileOf(legacy, 'reward_model'), 'legacy', 1],
    ['new shape, component file', fileOf(current, 'reward'), 'current', 8],
  ])('%s: imports without problems', (_, text, shape, workers) => {
    const config = importConfig(text)
    expectWhole(config)
    expect(config.problems).toEqual([])
    expect(config).toMatchObject({ shape, workers, reward: {}, servers: [], sandbox: null })
    const settings = text.split('\n').filter((line) => /^\s*\w+: \S/.test(line))
    expect(config.keys).toHaveLength(settings.length)
  })

  test('a reward model on the trainer’s GPUs: servers that wake and sleep', () => {
    const text = `${legacy
      .replace('enable: False', 'enable: True')
      .replace('name: ???', 'name: vllm')
      .replace('~/models/FsfairX-LLaMA3-RM-v0.1', 'Skywork/Skywork-Reward-V2-Llama-3.2-3B')}
trainer:
  n_gpus_per_node: 8
  nnodes: 1
`
    const config = importConfig(text)
    expectWhole(config)
    expect(config.problems).toEqual([])
    expect(config.reward).toEqual({
      model: 'Skywork/Skywork-Reward-V2-Llama-3.2-3B',
      sleepAfter: true,
    })
    expect(config.servers).toHaveLength(4)
    expect(config.servers[1]).toMatchObject({
      name: 'rm-1',
      engine: 'vllm',
      kind: 'discriminative',
      port: 8102,
      env: { CUDA_VISIBLE_DEVICES: '2,3', VLLM_SERVER_DEV_MODE: '1' },
    })
    const command = config.servers[1]?.command.join(' ')
    expect(command).toContain('vllm serve Skywork/Skywork-Reward-V2-Llama-3.2-3B')
    expect(command).toContain('--tensor-parallel-size 2')
    expect(command).toContain('--enable-sleep-mode')
    expect(command).toContain('--gpu-memory-utilization 0.5')
  })

  test('a reward model in a separate pool, with arguments of the engine', () => {
    const config = importConfig(`
reward:
  reward_model:
    enable: true
    enable_resource_pool: true
    n_gpus_per_node: 8
    nnodes: 2
    model_path: /models/rm
    rollout:
      name: sglang
      tensor_model_parallel_size: 4
      max_model_len: 16384
      cudagraph_capture_sizes: [1, 2]
      engine_kwargs:
        sglang: {attention_backend: fa3, disable_overlap_schedule: true}
        vllm: {max_loras: 2}
`)
    expectWhole(config)
    expect(config.problems).toEqual([])
    expect(config.reward).toEqual({ model: '/models/rm' })
    expect(config.servers).toHaveLength(4)
    expect(config.servers[0]?.env).toEqual({})
    expect(config.servers[0]?.command.join(' ')).toMatch(
      /^python3 -m sglang\.launch_server --model-path \/models\/rm .*--is-embedding .*--tp-size 4 .*--context-length 16384 .*--attention-backend fa3 --disable-overlap-schedule --port 8101$/,
    )
    const key = 'reward.reward_model.rollout.'
    expect(statusOf(config, `${key}cudagraph_capture_sizes`)).toBe('not_applicable')
    expect(statusOf(config, `${key}engine_kwargs.vllm.max_loras`)).toBe('not_applicable')
    expect(statusOf(config, `${key}engine_kwargs.sglang.attention_backend`)).toBe('supported')
  })

  test.each([
    ['name: trtllm', /"trtllm" cannot serve reward models: use vllm or sglang/],
    ['dtype: bfloat16', /the engine must be set/],
    ['name: vllm\n      skip_tokenizer_init: true', /needs its tokenizer/],
  ])('an impossible server is reported: %s', (rollout, message) => {
    const config = importConfig(`
reward:
  reward_model:
    enable: true
    model_path: rm
    rollout:
      ${rollout}
`)
    expectWhole(config)
    expect(messages(config)).toMatch(message)
  })

  test('a pool without nodes gives no servers and is reported', () => {
    const config = importConfig(`
reward.reward_model.enable=True reward.reward_model.enable_resource_pool=True \\
reward.reward_model.model_path=rm reward.reward_model.rollout.name=vllm \\
reward.reward_model.n_gpus_per_node=8 reward.reward_model.nnodes=0`)
    expectWhole(config)
    expect(config.problems).toMatchObject([
      { key: 'reward.reward_model.nnodes', message: '0 GPUs make 0 servers of 2 GPUs each' },
    ])
  })
})

describe('the imported reward', () => {
  test('dapo with its overlong buffer', () => {
    const config = importConfig(`
data: {max_response_length: 20480}
reward_model:
  reward_manager: dapo
  reward_kwargs:
    overlong_buffer_cfg: {enable: True, len: 4096, penalty_factor: 1.0, log: False}
    max_resp_len: \${data.max_response_length}
`)
    expectWhole(config)
    expect(config.problems).toEqual([])
    expect(config.reward).toEqual({
      manager: 'dapo',
      kwargs: {
        max_resp_len: 20480,
        overlong_buffer_cfg: { enable: true, len: 4096, penalty_factor: 1, log: false },
      },
    })
    expect(statusOf(config, 'reward_model.reward_kwargs.max_resp_len')).toBe('supported')
  })

  test.each(['rate_limited', 'limited', 'limit'])(
    '%s with its limits, over all workers',
    (name) => {
      const config = importConfig(`
reward:
  reward_manager: {name: ${name}}
  max_concurrent: 8
  max_rpm: 500
  max_tpm: 100000
  estimated_tokens_per_request: 1500
  timeout: 60
`)
      expectWhole(config)
      expect(config.problems).toEqual([])
      expect(config.reward).toEqual({
        manager: 'rate_limited',
        kwargs: {
          max_concurrent: 8,
          max_rpm: 500,
          max_tpm: 100_000,
          estimated_tokens_per_request: 1500,
        },
        timeoutMs: 60_000,
      })
    },
  )

  test('unused limits are reported', () => {
    const config = importConfig('reward: {max_rpm: 60}')
    expect(statusOf(config, 'reward.max_rpm')).toBe('not_applicable')
    expect(config.reward).toEqual({})
  })

  test('a Python function is served separately, a JavaScript one is loaded', () => {
    const python = importConfig(`
custom_reward_function:
  path: recipes/my_reward.py
  name: compute
  reward_kwargs: {weights: {format: 0.1}, strict: yes}
`)
    expectWhole(python)
    expect(python.reward).toEqual({ model: 'my_reward:compute' })
    expect(python.functionServer).toEqual({
      path: 'recipes/my_reward.py',
      name: 'compute',
      kwargs: { weights: { format: 0.1 }, strict: true },
      model: 'my_reward:compute',
      command: [
        ...['rewardops', 'serve-reward', 'recipes/my_reward.py:compute'],
        ...['--model', 'my_reward:compute'],
        ...['--kwargs', '{"weights":{"format":0.1},"strict":true}'],
      ],
    })
    const registered = importConfig(
      'reward: {custom_reward_function: {path: r.py}}',
      'http://10.0.0.1:3000',
    )
    expect(registered.functionServer?.command).toEqual([
      ...['rewardops', 'serve-reward', 'r.py:compute_score', '--model', 'r:compute_score'],
      ...['--register', 'http://10.0.0.1:3000'],
    ])
    const script = importConfig(
      'reward: {custom_reward_function: {path: score.ts, reward_kwargs: {strict: true}}}',
    )
    expect(script.reward).toEqual({
      function: { path: 'score.ts', name: 'compute_score', kwargs: { strict: true } },
    })
    expect(script.problems).toEqual([])
  })

  test('a judge: a function and the model it calls', () => {
    const config = importConfig(`
reward:
  custom_reward_function: {path: judge.py}
  reward_model:
    enable: true
    model_path: Qwen/Qwen3-4B
    rollout: {name: vllm, tensor_model_parallel_size: 1}
`)
    expectWhole(config)
    expect(config.reward).toEqual({ model: 'judge:compute_score' })
    expect(config.servers).toMatchObject([{ kind: 'generative', model: 'Qwen/Qwen3-4B' }])
  })

  test('a class loaded from a module is reported under its name', () => {
    const config = importConfig(`
reward_model:
  reward_loop_source: importlib
  reward_loop_module_path: my/manager.py
  reward_loop_class_name: MyRewardManager
`)
    expectWhole(config)
    expect(messages(config)).toContain('MyRewardManager of my/manager.py is Python')
    expect(config.keys.map(({ status }) => status)).toEqual(Array(3).fill('not_applicable'))
  })

  test('a class that is not Python is imported as a manager', () => {
    const config = importConfig(`
reward:
  reward_manager: {source: importlib, name: MyRewardManager, module: {path: managers/mine.ts}}
`)
    expectWhole(config)
    expect(config.reward).toEqual({
      manager: { path: 'managers/mine.ts', name: 'MyRewardManager' },
    })
    expect(config.problems).toEqual([])
  })

  test('other settings of a submit', () => {
    const config = importConfig(`
actor_rollout_ref: {rollout: {n: 16}}
algorithm: {norm_adv_by_std_in_grpo: False, adv_estimator: grpo}
data: {reward_fn_key: source}
max_concurrency: 64
mini_batch_pipeline: True
sandbox_fusion: {url: 'http://localhost:8080/run_code', max_concurrent: 32}
`)
    expectWhole(config)
    expect(config).toMatchObject({
      groupSize: 16,
      normAdvByStd: false,
      dataSourceColumn: 'source',
      reward: { maxConcurrency: 64, advantages: { normByStd: false } },
      sandbox: { url: 'http://localhost:8080/run_code', maxConcurrent: 32, memoryLimitMb: 1024 },
      problems: [],
    })
  })

  test('gdpo with its dimensions', () => {
    const config = importConfig(`
reward: {reward_manager: {name: gdpo}}
algorithm: {gdpo_reward_keys: [acc, format], gdpo_reward_weights: [1, 0.5]}
`)
    expect(config.reward).toEqual({
      manager: 'gdpo',
      kwargs: { gdpo_reward_keys: ['acc', 'format'], gdpo_reward_weights: [1, 0.5] },
    })
    expect(config.problems).toEqual([])
  })

  test('the manager batch without a function that it can call is reported', () => {
    const batch = (path: string) =>
      messages(
        importConfig(`reward_model.reward_manager=batch custom_reward_function.path=${path}`),
      )
    expect(batch('mine.py')).toMatch(/the manager batch calls a function .* there is none/)
    expect(batch('mine.ts')).toBe('')
  })

  test('kwargs that a submit would refuse are reported', () => {
    const gdpo = (algorithm: string) =>
      messages(importConfig(`reward: {reward_manager: {name: gdpo}}\nalgorithm: ${algorithm}\n`))
    expect(gdpo('{}')).toMatch(/kwarg "gdpo_reward_keys" of manager gdpo is not valid/)
    expect(gdpo('{gdpo_reward_keys: acc}')).toMatch(/"gdpo_reward_keys" .* is not valid/)
    expect(gdpo('{gdpo_reward_keys: [a, b], gdpo_reward_weights: [1]}')).toMatch(
      /"gdpo_reward_weights" .* is not one weight for each/,
    )
    expect(gdpo('{gdpo_reward_keys: [a], gdpo_reward_weights: null}')).toBe('')
    const limited = importConfig(
      'reward: {reward_manager: {name: rate_limited}, max_concurrent: 0}',
    )
    expect(messages(limited)).toMatch(/"max_concurrent" .* is not valid/)
  })
})

describe('the old and the new shape in one text', () => {
  test('an old key overrides the new one unless it is null', () => {
    const config = importConfig(`
reward_model: {num_workers: 4, reward_manager: null, enable: null}
reward: {num_workers: 8, reward_manager: {name: dapo}}
`)
    expectWhole(config)
    expect(config).toMatchObject({ shape: 'both', workers: 4, reward: { manager: 'dapo' } })
    expect(config.keys).toMatchObject([
      { key: 'reward_model.num_workers', status: 'supported' },
      { key: 'reward_model.reward_manager', status: 'not_applicable' },
      { key: 'reward_model.enable', status: 'not_applicable' },
      {
        key: 'reward.num_workers',
        status: 'not_applicable',
        note: 'overridden by reward_model.num_workers',
      },
      { key: 'reward.reward_manager.name', status: 'supported' },
    ])
  })
})

describe('a typo is reported with the intended key', () => {
  test.each([
    ['reward_model.reward_manger', 'reward_model.reward_manager'],
    ['reward_modle.enable', 'reward_model.enable'],
    [
      'reward.reward_model.rollout.tensor_parallel_size',
      'reward.reward_model.rollout.tensor_model_parallel_size',
    ],
    ['reward.reward_model.modle_path', 'reward.reward_model.model_path'],
    ['reward.model_path', 'reward.reward_model.model_path'],
    ['reward.max_rmp', 'reward.max_rpm'],
    ['reward_model.rollout.gpu_memory_utilisation', 'reward_model.rollout.gpu_memory_utilization'],
    ['custom_reward_function.pth', 'custom_reward_function.path'],
    ['custom_reward_func.path', 'custom_reward_function.path'],
    [
      'reward_model.reward_kwargs.overlong_buffer_cfg.penalty_facor',
      'reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor',
    ],
    ['reward.zzzzzzzz', undefined],
  ])('%s → %s', (typo, meant) => {
    expect(nearestKey(typo)).toBe(meant)
    const config = importConfig(`${typo}=1`)
    expect(config.keys).toMatchObject([{ key: typo, status: 'unknown' }])
    expect(config.keys[0]?.nearest).toBe(meant)
    expect(messages(config)).toContain(meant ?? 'no such key')
  })

  test('also in a kwarg, a manager or a value', () => {
    const kwarg = importConfig('reward: {reward_kwargs: {max_resp_lne: 20480}}')
    expect(kwarg.keys).toMatchObject([
      { status: 'unknown', nearest: 'reward.reward_kwargs.max_resp_len' },
    ])
    const manager = importConfig('reward_model: {reward_manager: dap}')
    expect(messages(manager)).toContain('did you mean "dapo"?')
    const value = importConfig('reward_model:\n  enable: maybe\n  num_workers: many\n')
    expect(value.problems).toEqual([
      { key: 'reward_model.enable', line: 2, message: 'must be True or False, not "maybe"' },
      {
        key: 'reward_model.num_workers',
        line: 3,
        message: 'must be a number of at least 1, not "many"',
      },
    ])
  })

  test('an invalid kwarg of dapo is reported with its allowed values', () => {
    const config = importConfig(
      'reward: {reward_manager: {name: dapo}, reward_kwargs: {overlong_buffer_cfg: {enable: true, len: 4096}}}',
    )
    expect(messages(config)).toMatch(/"max_resp_len" is missing/)
    expect(config.reward.kwargs).toBeUndefined()
  })
})

describe('references', () => {
  const read = (text: string) => {
    const config = importConfig(text)
    expectWhole(config)
    return config
  }

  test('are resolved: absolute and relative keys of the text, and defaults', () => {
    const config = read(`
base: {workers: 6}
reward:
  num_workers: \${base.workers}
  max_rpm: 60
  max_tpm: \${.max_rpm}
  reward_manager: {name: "\${oc.select:nothing.here,rate_limited}"}
  timeout: \${oc.env:REWARD_TIMEOUT,30}
  custom_reward_function: {path: "\${oc.env:HOME,/root}/fn\${base.workers}.ts"}
`)
    expect(config).toMatchObject({
      workers: 6,
      reward: {
        manager: 'rate_limited',
        kwargs: { max_rpm: 60, max_tpm: 60 },
        timeoutMs: 30_000,
        function: { path: '/root/fn6.ts' },
      },
    })
  })

  test.each([
    ['{data.max_response_length}', '{data.max_response_length}'],
    ['{oc.env:WORKERS}', '{oc.env:WORKERS}'],
    ['{mine:1}', '{mine:1}'],
    ['{reward.num_workers}', '{reward.num_workers}'],
    ['{a.$' + '{b}}', '{b}'],
  ])('are reported if they cannot be resolved: $%s', (inside, named) => {
    const reference = `$${inside}`
    const config = read(`reward:\n  num_workers: '${reference}'\n`)
    expect(config.workers).toBeNull()
    expect(config.keys).toMatchObject([{ status: 'unresolved' }])
    expect(config.problems).toMatchObject([{ key: 'reward.num_workers', line: 2 }])
    expect(messages(config)).toContain(`$${named}`)
  })
})

describe('the overrides of a command line', () => {
  test('are read from a script, with its variables', () => {
    const config = importConfig(`#!/usr/bin/env bash
set -x
max_response_length=$((1024 * 20))
buffer=$((1024 * 4))  # tokens
name="dapo"
RM=\${RM:-Skywork/rm}
if [ -n "$X" ]; then
    workers=4
fi
NCCL_DEBUG=WARN python3 -m verl.trainer.main_ppo \\
    data.train_files="['a.parquet','b.parquet']" \\
    reward_model.reward_manager=\${name} \\
    reward_model.num_workers=$workers \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.enable=True \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.len=\${buffer} \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor=1.0 \\
    ++reward_model.reward_kwargs.max_resp_len=\${max_response_length} \\
    reward_model.model.path="\${RM}" \\
    trainer.nnodes=1 $@
`)
    expectWhole(config)
    expect(config.problems).toEqual([])
    expect(config).toMatchObject({
      shape: 'legacy',
      workers: 4,
      reward: {
        manager: 'dapo',
        kwargs: { max_resp_len: 20480, overlong_buffer_cfg: { enable: true, len: 4096 } },
      },
    })
    expect(config.keys.find(({ key }) => key === 'reward_model.model.path')).toMatchObject({
      value: 'Skywork/rm',
      line: 18,
    })
  })

  /** The values of the overrides in a script. */
  const valuesOf = (...lines: string[]) =>
    Object.fromEntries(
      importConfig(`set -x\n${lines.join('\n')}\n`).keys.map(({ key, value }) => [key, value]),
    )

  test.each([
    ['a.b=$((1024 * 4))', 4096],
    ['a.b=$(((1 + 2) * 3))', 9],
    [`a.b=$((2 * $n + \${n}))`, 12],
    ['a.b=x$n/y', 'x4/y'],
    ["a.b='/my dir/f.py'", '/my dir/f.py'],
    ["'a.b=/my dir/$n.py'", '/my dir/$n.py'],
    ['"a.b=/my dir/$n.py"', '/my dir/4.py'],
    ['a.b=/my\\ dir/"f #1".py', '/my dir/f #1.py'],
    ['a.b=x # a comment with c.d=1', 'x'],
    ['a.b=$(nproc --all)', '$(nproc --all)'],
    ["a.b=\"['x y', 'z']\"", ['x y', 'z']],
    ['a.b=[x, [1, 2]]', ['x', [1, 2]]],
    [`"a.b=\\\${data.len}"`, `\${data.len}`],
    ['a.b=\'"5"\'', '5'],
    ["a.b='{}'", {}],
    ['bash -c "python3 -m verl a.b=7"', 7],
    ['echo "it starts; python3 -m verl a.b=8', 8],
    ['echo it doesn\'t cut a.b="9 and 10"', '9 and 10'],
    ['all="c a.b=11"\npython3 -m verl $all', 11],
  ])('the value of %s is whole', (line, value) => {
    expect(valuesOf('n=4', line)).toEqual({ 'a.b': value })
  })

  test('an unquoted variable gives all of its overrides, a quoted one is one word', () => {
    const all = 'all="a.b=1 c.d=2"'
    expect(valuesOf(all, 'python3 -m verl $all')).toEqual({ 'a.b': 1, 'c.d': 2 })
    expect(valuesOf(all, 'python3 -m verl $all e.f=3')).toEqual({ 'a.b': 1, 'c.d': 2, 'e.f': 3 })
    expect(valuesOf(all, 'python3 -m verl "$all"')).toEqual({ 'a.b': '1 c.d=2' })
  })

  test('a map gives a setting for each of its keys', () => {
    expect(
      valuesOf(
        'n="4096"',
        '+reward.reward_kwargs={max_resp_len:20480, overlong_buffer_cfg: {enable: True, "len":$n}}',
        'reward.reward_kwargs.max_resp_len=8192',
      ),
    ).toEqual({
      'reward.reward_kwargs.overlong_buffer_cfg.enable': true,
      'reward.reward_kwargs.overlong_buffer_cfg.len': 4096,
      'reward.reward_kwargs.max_resp_len': 8192,
    })
  })

  test('the last one of a key counts, and nothing is executed', () => {
    const config = importConfig('reward.num_workers=2 reward.num_workers=$(nproc)\n')
    expect(config.workers).toBeNull()
    expect(importConfig('reward.num_workers=2 reward.num_workers=3').workers).toBe(3)
    expect(importConfig('max_concurrency=8').reward.maxConcurrency).toBe(8)
  })
})

describe('an invalid text', () => {
  test.each([
    ['reward: [1, 2', /./],
    ['- a\n- b', /not a map/],
    ['reward:\n  num_workers: 1\n  num_workers: 2\n', /unique/i],
    ['a: 1\n---\nb: 2', /several documents/],
    ['x'.repeat(1_000_001), /longer than/],
    [`a: ${'['.repeat(101)}`, /nested more than 100/],
    [`${'- '.repeat(101)}a`, /nested more than 100/],
    [`a: ${']'.repeat(101)}\nb: ${'['.repeat(101)}`, /nested more than 100/],
    [`]\n${'- '.repeat(101)}a`, /nested more than 100/],
    [`reward.a=${'['.repeat(101)}`, /reward\.a: nested more than 100/],
  ])('%#: is reported as a problem', (text, message) => {
    const config = importConfig(text)
    expect(config.keys).toEqual([])
    expect(messages(config)).toMatch(message)
  })

  test('is neither an empty text nor a text without rewards', () => {
    expect(importConfig('')).toMatchObject({ shape: 'none', keys: [], problems: [] })
    expect(importConfig('# nothing\n')).toMatchObject({ shape: 'none', problems: [] })
    expect(importConfig('trainer: {total_epochs: 15}')).toMatchObject({
      shape: 'none',
      keys: [{ status: 'not_applicable' }],
      problems: [],
    })
  })

  test('expanding aliases and prototype keys do no harm', () => {
    const bomb = `a: &a {k: 1}\n${'bcdefghijklmn'
      .split('')
      .map(
        (name, at) => `${name}: &${name} {p: *${'abcdefghijklm'[at]}, q: *${'abcdefghijklm'[at]}}`,
      )
      .join('\n')}`
    expect(importConfig(bomb).keys.length).toBeLessThan(20_001)
    for (const circular of ['a: &a [*a]', 'a: &a {b: *a}', 'reward.x=[&a[*a]]', 'x=*none']) {
      expect(messages(importConfig(circular)), circular).toMatch(/alias/)
    }
    importConfig('custom_reward_function: {path: f.ts, reward_kwargs: {__proto__: {polluted: 1}}}')
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  test('mangled texts cause no error, and every key is reported', () => {
    let state = 42
    const next = (below: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
      return (state >>> 8) % below
    }
    const lines = `${legacy}${current}`.split('\n')
    const junk = ['${', '}', ': ', '- ', '&a', '*a', '<<: *a', "'", '"', '=', '$((', '\t', '\u0000']
    for (let at = 0; at < (FULL ? 2_000 : 300); at++) {
      const start = next(lines.length)
      const some = lines.slice(start, start + next(20))
      for (let n = next(4); n > 0; n--) {
        const line = next(some.length + 1)
        const text = some[line] ?? ''
        const cut = next(text.length + 1)
        some[line] = text.slice(0, cut) + junk[next(junk.length)] + text.slice(cut)
      }
      expectWhole(importConfig(some.join('\n')))
    }
  })
})
