/**
 * verl's keys about rewards, in the old shape, before 2026-02 (`reward_model.*`, `custom_reward_function`,
 * `reward_manager`), and in the new shape (`reward.*`). The lists below name every key of both shapes.
 */

/** The reason why a known key is not read. */
type Elsewhere = string

const FSDP = 'the reward model runs in a separate server with its own settings'
const TRAINER = 'read by the trainer only'
const SAMPLING = 'set a judge’s sampling in its template'
const COMPOSED = 'read by Hydra only; import the composed configuration to include other files'

/** Rollout keys that are read, under `reward_model.rollout` (old shape) or `reward.reward_model.rollout` (new). */
export const ROLLOUT_KEYS = [
  'name',
  'dtype',
  'gpu_memory_utilization',
  'enforce_eager',
  'cudagraph_capture_sizes',
  'free_cache_engine',
  'tensor_model_parallel_size',
  'data_parallel_size',
  'expert_parallel_size',
  'pipeline_model_parallel_size',
  'max_num_batched_tokens',
  'max_model_len',
  'max_num_seqs',
  'load_format',
  'limit_images',
  'enable_chunked_prefill',
  'enable_prefix_caching',
  'disable_log_stats',
  'skip_tokenizer_init',
  'scheduling_policy',
  'seed',
  'quantization',
] as const

export const ROLLOUT_ELSEWHERE: Readonly<Record<string, Elsewhere>> = {
  _target_: COMPOSED,
  prompt_length: 'only max_model_len limits the length of a text',
  response_length: 'only max_model_len limits the length of a text',
  ignore_eos: SAMPLING,
  temperature: SAMPLING,
  top_k: SAMPLING,
  top_p: SAMPLING,
  do_sample: SAMPLING,
  n: 'set votes.k in the judge template',
  layered_summon: 'concerns the loading of the policy’s weights',
  multi_stage_wake_up: 'a server wakes up in one step',
  full_determinism: 'set the balancing policy of the model’s pool to "deterministic"',
  quantization_config_file: 'use the quantized checkpoint as the model',
  mtp: 'set it as an argument of the server',
  disaggregation: 'set it as an argument of the server',
  logprobs_mode: 'set it as an argument of the server',
  mode: 'servers are called over HTTP in either mode',
  profiler: FSDP,
  prometheus: 'scrape the servers directly',
}

/** Old key → new key, for moved keys. An old key that ends in `.` stands for all keys under it. */
export const MOVED: readonly (readonly [from: string, to: string])[] = [
  ['reward_model.num_workers', 'reward.num_workers'],
  ['reward_model.reward_manager', 'reward.reward_manager.name'],
  ['reward_model.reward_loop_source', 'reward.reward_manager.source'],
  ['reward_model.reward_loop_module_path', 'reward.reward_manager.module.path'],
  ['reward_model.reward_loop_class_name', 'reward.reward_manager.class_name'],
  ['reward_model.enable', 'reward.reward_model.enable'],
  ['reward_model.enable_resource_pool', 'reward.reward_model.enable_resource_pool'],
  ['reward_model.n_gpus_per_node', 'reward.reward_model.n_gpus_per_node'],
  ['reward_model.nnodes', 'reward.reward_model.nnodes'],
  ['reward_model.model.path', 'reward.reward_model.model_path'],
  ['reward_model.model.trust_remote_code', 'reward.reward_model.trust_remote_code'],
  ['reward_model.rollout.', 'reward.reward_model.rollout.'],
  ['reward_model.reward_kwargs.', 'reward.reward_kwargs.'],
  ['reward_model.sandbox_fusion.', 'reward.sandbox_fusion.'],
  ['reward_model.max_concurrent', 'reward.max_concurrent'],
  ['reward_model.max_rpm', 'reward.max_rpm'],
  ['reward_model.max_tpm', 'reward.max_tpm'],
  ['reward_model.estimated_tokens_per_request', 'reward.estimated_tokens_per_request'],
  ['reward_model.timeout', 'reward.timeout'],
  ['custom_reward_function.', 'reward.custom_reward_function.'],
  ['reward_manager.', 'reward.reward_manager.'],
  ['sandbox_fusion.', 'reward.sandbox_fusion.'],
]

/** Keys that are read, in the new shape. A key ending in `.` stands for all keys under it. */
export const READ_KEYS: readonly string[] = [
  'reward.num_workers',
  'reward.reward_manager.source',
  'reward.reward_manager.name',
  'reward.reward_manager.class_name',
  'reward.reward_manager.module.path',
  'reward.reward_manager.module.name',
  'reward.custom_reward_function.path',
  'reward.custom_reward_function.name',
  'reward.custom_reward_function.reward_kwargs.',
  'reward.reward_kwargs.max_resp_len',
  'reward.reward_kwargs.overlong_buffer_cfg.enable',
  'reward.reward_kwargs.overlong_buffer_cfg.len',
  'reward.reward_kwargs.overlong_buffer_cfg.penalty_factor',
  'reward.reward_kwargs.overlong_buffer_cfg.log',
  'reward.reward_kwargs.overlong_buffer_cfg.clamp',
  'reward.max_concurrent',
  'reward.max_rpm',
  'reward.max_tpm',
  'reward.estimated_tokens_per_request',
  'reward.timeout',
  'reward.reward_model.enable',
  'reward.reward_model.enable_resource_pool',
  'reward.reward_model.n_gpus_per_node',
  'reward.reward_model.nnodes',
  'reward.reward_model.model_path',
  'reward.reward_model.trust_remote_code',
  ...ROLLOUT_KEYS.map((key) => `reward.reward_model.rollout.${key}`),
  'reward.reward_model.rollout.engine_kwargs.',
  'reward.sandbox_fusion.url',
  'reward.sandbox_fusion.max_concurrent',
  'reward.sandbox_fusion.memory_limit_mb',
  'actor_rollout_ref.rollout.n',
  'data.reward_fn_key',
  'algorithm.norm_adv_by_std_in_grpo',
  'algorithm.gdpo_reward_keys',
  'algorithm.gdpo_reward_weights',
  'max_concurrency',
]

/**
 * Known keys that are not read, with the reason. Keys that exist only in the old shape are listed in that shape. A key
 * ending in `.` stands for all keys under it.
 */
export const ELSEWHERE: Readonly<Record<string, Elsewhere>> = {
  'reward._target_': COMPOSED,
  'reward.reward_manager._target_': COMPOSED,
  'reward.reward_manager.module._target_': COMPOSED,
  'reward.reward_model._target_': COMPOSED,
  'reward.sandbox_fusion._target_': COMPOSED,
  ...Object.fromEntries(
    Object.entries(ROLLOUT_ELSEWHERE).flatMap(([key, why]) => [
      [`reward.reward_model.rollout.${key}`, why],
      [`reward.reward_model.rollout.${key}.`, why],
    ]),
  ),
  'reward_model.use_reward_loop': 'the reward loop is always used',
  'reward_model.launch_reward_fn_async':
    'scoring is always asynchronous: batches.submit, then batches.next',
  'reward_model.model.input_tokenizer': 'responses arrive as text, so no tokenizer decodes them',
  'reward_model.model.external_lib': FSDP,
  'reward_model.model.use_shm': FSDP,
  'reward_model.model.use_remove_padding': FSDP,
  'reward_model.model.use_fused_kernels': FSDP,
  'reward_model.model.override_config.': FSDP,
  'reward_model.model.override_config': FSDP,
  'reward_model.model.fsdp_config.': FSDP,
  'reward_model.overlong_buffer.':
    'verl’s manager does not read it either: set reward_kwargs.overlong_buffer_cfg',
  'reward_model.strategy': FSDP,
  'reward_model.micro_batch_size': FSDP,
  'reward_model.micro_batch_size_per_gpu': FSDP,
  'reward_model.forward_micro_batch_size_per_gpu': FSDP,
  'reward_model.max_length': FSDP,
  'reward_model.use_dynamic_bsz': FSDP,
  'reward_model.forward_max_token_len_per_gpu': FSDP,
  'reward_model.ulysses_sequence_parallel_size': FSDP,
  'reward_model.nccl_timeout': FSDP,
  'reward_model.load_weight': FSDP,
  'reward_model.megatron.': FSDP,
  'reward_model.profiler.': FSDP,
  'algorithm.filter_groups.': 'the trainer filters; no-signal groups are marked with their class',
  'data.return_raw_chat': 'the prompt comes with each sample, as messages or as text',
  'data.max_response_length': `${TRAINER}; send each sample’s responseLength`,
  'trainer.rollout_data_dir': 'rollouts and rewards are kept here, and exported as JSON lines',
  'trainer.validation_data_dir': 'send validation batches with split "val"; they are kept here',
  'trainer.log_val_generations': 'every sample can be viewed',
  mini_batch_pipeline: 'batches.next returns whole groups as they complete',
  defaults: COMPOSED,
  'hydra.': COMPOSED,
  _target_: COMPOSED,
  ...Object.fromEntries(
    [
      'actor_rollout_ref',
      'critic',
      'data',
      'algorithm',
      'trainer',
      'ray_kwargs',
      'ray_init',
      'global_profiler',
      'transfer_queue',
      'distillation',
      'skip',
      'rollout',
      'async_training',
      'checkpoint',
      'model_engine',
      'env',
    ].flatMap((section) => [
      [section, TRAINER],
      [`${section}.`, TRAINER],
    ]),
  ),
}

export function currentKey(key: string): string {
  for (const [from, to] of MOVED) {
    if (from === key) return to
    if (from.endsWith('.') && key.startsWith(from)) return to + key.slice(from.length)
  }
  return key
}

export function isRead(key: string): boolean {
  return READ_KEYS.some((known) => (known.endsWith('.') ? key.startsWith(known) : key === known))
}

/**
 * Returns why a known key is not read, or null for other keys. The key is looked up as written, then in the new shape.
 */
export function whyElsewhere(key: string): string | null {
  for (const candidate of [key, currentKey(key)]) {
    const exact = ELSEWHERE[candidate]
    if (exact !== undefined) return exact
    for (let at = candidate.lastIndexOf('.'); at > 0; at = candidate.lastIndexOf('.', at - 1)) {
      const under = ELSEWHERE[candidate.slice(0, at + 1)]
      if (under !== undefined) return under
    }
  }
  return null
}

/** Every key in both shapes, for suggestions after a typo. */
export function writableKeys(): readonly string[] {
  keysOnce ??= allKeys()
  return keysOnce
}

let keysOnce: readonly string[] | null = null

function allKeys(): string[] {
  const keys = new Set<string>([...READ_KEYS, ...Object.keys(ELSEWHERE)])
  for (const key of READ_KEYS) {
    for (const [from, to] of MOVED) {
      if (key === to) keys.add(from)
      else if (to.endsWith('.') && key.startsWith(to)) keys.add(from + key.slice(to.length))
    }
  }
  for (const key of Object.keys(ROLLOUT_ELSEWHERE)) keys.add(`reward_model.rollout.${key}`)
  return [...keys]
}

export function isSection(key: string): boolean {
  sectionsOnce ??= new Set(writableKeys().flatMap((known) => parentsOf(known)))
  return sectionsOnce.has(key)
}

let sectionsOnce: ReadonlySet<string> | null = null

function parentsOf(key: string): string[] {
  const parts = key.split('.')
  return parts.slice(0, -1).map((_, at) => parts.slice(0, at + 1).join('.'))
}
