import type { ImportedConfigDto } from '../../contract/rewards.ts'
import type { Settings } from './settings.ts'
import { ROLLOUT_KEYS } from './upstream-keys.ts'

const ROLLOUT = 'reward.reward_model.rollout.'
const MODEL = 'reward.reward_model.'
const MAX_SERVERS = 256
/** Port of the first server; above the ports of verl's examples. */
const FIRST_PORT = 8101

/** A server to launch, as in the input of `servers.launch` and in the servers file. */
export type ServerDraft = ImportedConfigDto['servers'][number]

type RolloutKey = (typeof ROLLOUT_KEYS)[number]
type Flag = (value: unknown, name: string) => string[]

const named =
  (flag: string): Flag =>
  (value) => [`--${flag}`, String(value)]
const whenTrue =
  (flag: string): Flag =>
  (value) =>
    value === true ? [`--${flag}`] : []
const whenFalse =
  (flag: string): Flag =>
  (value) =>
    value === false ? [`--${flag}`] : []
const either =
  (flag: string): Flag =>
  (value) => [value === false ? `--no-${flag}` : `--${flag}`]
const aboveOne =
  (flag: string): Flag =>
  (value) =>
    Number(value) > 1 ? [`--${flag}`, String(value)] : []
const nothing: Flag = () => []

const VLLM: Partial<Record<RolloutKey, Flag>> = {
  dtype: named('dtype'),
  gpu_memory_utilization: named('gpu-memory-utilization'),
  enforce_eager: whenTrue('enforce-eager'),
  cudagraph_capture_sizes: (sizes) => [
    '--compilation-config',
    JSON.stringify({ cudagraph_capture_sizes: sizes }),
  ],
  free_cache_engine: whenTrue('enable-sleep-mode'),
  tensor_model_parallel_size: named('tensor-parallel-size'),
  data_parallel_size: aboveOne('data-parallel-size'),
  pipeline_model_parallel_size: aboveOne('pipeline-parallel-size'),
  expert_parallel_size: (size) => (Number(size) > 1 ? ['--enable-expert-parallel'] : []),
  max_num_batched_tokens: named('max-num-batched-tokens'),
  max_model_len: named('max-model-len'),
  max_num_seqs: named('max-num-seqs'),
  load_format: named('load-format'),
  limit_images: (images) => ['--limit-mm-per-prompt', JSON.stringify({ image: images })],
  enable_chunked_prefill: either('enable-chunked-prefill'),
  enable_prefix_caching: either('enable-prefix-caching'),
  disable_log_stats: whenTrue('disable-log-stats'),
  skip_tokenizer_init: nothing,
  scheduling_policy: named('scheduling-policy'),
  seed: named('seed'),
  quantization: named('quantization'),
}

const SGLANG: Partial<Record<RolloutKey, Flag>> = {
  dtype: named('dtype'),
  gpu_memory_utilization: named('mem-fraction-static'),
  enforce_eager: whenTrue('disable-cuda-graph'),
  free_cache_engine: whenTrue('enable-memory-saver'),
  tensor_model_parallel_size: named('tp-size'),
  data_parallel_size: aboveOne('dp-size'),
  pipeline_model_parallel_size: aboveOne('pp-size'),
  expert_parallel_size: aboveOne('ep-size'),
  max_num_batched_tokens: named('chunked-prefill-size'),
  max_model_len: named('context-length'),
  max_num_seqs: named('max-running-requests'),
  load_format: named('load-format'),
  enable_prefix_caching: whenFalse('disable-radix-cache'),
  skip_tokenizer_init: nothing,
  scheduling_policy: named('schedule-policy'),
  seed: named('random-seed'),
  quantization: named('quantization'),
}

/**
 * Returns the servers that verl would start for its reward model, as engine commands; none if the model or its engine
 * is not known. As in verl, the number of replicas is the number of GPUs (of the dedicated pool, else of the trainer)
 * divided by tensor × data × pipeline parallelism.
 */
export function draftServers(settings: Settings, kind: ServerDraft['kind']): ServerDraft[] {
  const model = settings.text(`${MODEL}model_path`)
  const engine = settings.text(`${ROLLOUT}name`)
  if (model === undefined) {
    if (!settings.isUnresolved(`${MODEL}model_path`)) {
      settings.problem(`${MODEL}model_path`, 'a reward model is enabled, but its path is not set')
    }
    return []
  }
  if (engine !== 'vllm' && engine !== 'sglang') {
    settings.problem(
      `${ROLLOUT}name`,
      engine === undefined || engine === '???'
        ? 'the engine must be set: vllm or sglang'
        : `"${engine}" cannot serve reward models: use vllm or sglang`,
    )
    return []
  }
  if (model.startsWith('~')) {
    const message = `"${model}": write the full path, because no shell expands ~`
    settings.problem(`${MODEL}model_path`, message)
  }
  const modelName = model.replace(/^~\/(?:models\/)?/, '')
  settings.honour(`${MODEL}model_path`, `reward.model, and the model of the servers`)
  settings.honour(`${ROLLOUT}name`, `the servers’ engine`)
  const args = engineArguments(settings, engine)
  const replicas = replicasOf(settings)
  const sleeps = settings.flag(`${ROLLOUT}free_cache_engine`) !== false
  const start = engine === 'vllm' ? ['vllm', 'serve', model] : SGLANG_START(model)
  const scoring = engine === 'sglang' && kind === 'discriminative' ? ['--is-embedding'] : []
  return Array.from({ length: replicas.count }, (_, at) => {
    const port = FIRST_PORT + at
    const gpus = replicas.gpusOf(at)
    return {
      name: `rm-${at}`,
      engine,
      kind,
      model: modelName,
      port,
      command: [
        ...start,
        '--served-model-name',
        modelName,
        ...scoring,
        ...args,
        '--port',
        String(port),
      ],
      env: {
        ...(gpus === null ? {} : { CUDA_VISIBLE_DEVICES: gpus }),
        ...(engine === 'vllm' && sleeps ? { VLLM_SERVER_DEV_MODE: '1' } : {}),
      },
    }
  })
}

/** The default options of the servers that verl starts. */
const DEFAULTS: Partial<Record<RolloutKey, unknown>> = {
  dtype: 'bfloat16',
  gpu_memory_utilization: 0.5,
  enforce_eager: true,
  free_cache_engine: true,
  tensor_model_parallel_size: 2,
  max_num_batched_tokens: 8192,
  max_num_seqs: 1024,
}

const SGLANG_START = (model: string) => [
  'python3',
  '-m',
  'sglang.launch_server',
  '--model-path',
  model,
]

function engineArguments(settings: Settings, engine: 'vllm' | 'sglang'): string[] {
  const flags = engine === 'vllm' ? VLLM : SGLANG
  const args: string[] = []
  for (const name of ROLLOUT_KEYS) {
    const key = ROLLOUT + name
    const value = settings.value(key) ?? DEFAULTS[name]
    if (name === 'name' || value === undefined) continue
    if (name === 'skip_tokenizer_init' && value === true) {
      settings.problem(key, 'a reward model needs its tokenizer, because it reads text')
    }
    const flag = flags[name]
    if (flag === undefined) {
      settings.leave(key, `${engine} has no such argument`)
      continue
    }
    const made = flag(value, name)
    args.push(...made)
    settings.honour(key, made.length > 0 ? made.join(' ') : `${engine}’s own default`)
  }
  const remoteCode =
    settings.flag(`${MODEL}trust_remote_code`) === true ? ['--trust-remote-code'] : []
  args.push(...remoteCode)
  settings.honour(`${MODEL}trust_remote_code`, remoteCode[0] ?? `${engine}’s own default`)
  const other = engine === 'vllm' ? 'sglang' : 'vllm'
  settings.leaveUnder(`${ROLLOUT}engine_kwargs.${other}.`, `the engine is ${engine}`)
  const own = settings.under(`${ROLLOUT}engine_kwargs.${engine}.`, 'an argument of the server')
  for (const [name, value] of Object.entries(own ?? {})) {
    if (value === null || value === false) continue
    args.push(`--${name.replaceAll('_', '-')}`)
    if (value !== true) args.push(typeof value === 'object' ? JSON.stringify(value) : String(value))
  }
  return args
}

function replicasOf(settings: Settings): {
  count: number
  /** GPUs of one server; null leaves the choice to the launcher. */
  gpusOf: (at: number) => string | null
} {
  const sizes = (
    [
      ['tensor_model_parallel_size', Number(DEFAULTS.tensor_model_parallel_size)],
      ['data_parallel_size', 1],
      ['pipeline_model_parallel_size', 1],
    ] as const
  ).map(([name, fallback]) => settings.number(ROLLOUT + name, 1) ?? fallback)
  const parallel = sizes.reduce((product, size) => product * size, 1)
  const ownPool = settings.flag(`${MODEL}enable_resource_pool`) === true
  const prefix = ownPool ? MODEL : 'trainer.'
  const perNode = settings.number(`${prefix}n_gpus_per_node`)
  const nodes = settings.number(`${prefix}nnodes`)
  if (ownPool) {
    const note = 'number of servers: GPUs ÷ (tensor × data × pipeline parallelism)'
    settings.honour(`${MODEL}n_gpus_per_node`, note)
    settings.honour(`${MODEL}nnodes`, note)
  } else {
    const why = 'without a separate pool, the model shares the trainer’s GPUs'
    settings.leave(`${MODEL}n_gpus_per_node`, why)
    settings.leave(`${MODEL}nnodes`, why)
    settings.honour('trainer.n_gpus_per_node', 'number of servers on the trainer’s GPUs')
    settings.honour('trainer.nnodes', 'number of servers on the trainer’s GPUs')
  }
  settings.honour(
    `${MODEL}enable_resource_pool`,
    ownPool
      ? 'separate servers, always awake'
      : 'reward.sleepAfter: servers are awake only while they score',
  )
  if (perNode === undefined || nodes === undefined) return { count: 1, gpusOf: () => null }
  const gpus = perNode * nodes
  const count = Math.floor(gpus / parallel)
  if (count < 1 || count > MAX_SERVERS) {
    const key = `${prefix}${ownPool && nodes === 0 ? 'nnodes' : 'n_gpus_per_node'}`
    settings.problem(key, `${gpus} GPUs make ${count} servers of ${parallel} GPUs each`)
    return { count: 1, gpusOf: () => null }
  }
  const oneMachine = nodes === 1
  return {
    count,
    gpusOf: (at) =>
      oneMachine ? Array.from({ length: parallel }, (_, n) => at * parallel + n).join(',') : null,
  }
}
