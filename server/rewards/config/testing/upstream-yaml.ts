/** verl's reward section until 2026-02: every key with its default. */
export const legacy = `
reward_model:
  use_reward_loop: True
  enable: False
  enable_resource_pool: False
  n_gpus_per_node: 8
  nnodes: 0
  strategy: ???
  num_workers: 1
  reward_manager: naive
  reward_loop_source: register
  reward_loop_module_path: null
  reward_loop_class_name: null
  launch_reward_fn_async: False
  micro_batch_size_per_gpu: null
  use_dynamic_bsz: \${critic.use_dynamic_bsz}
  model:
    input_tokenizer: \${actor_rollout_ref.model.path}
    path: ~/models/FsfairX-LLaMA3-RM-v0.1
    external_lib: \${actor_rollout_ref.model.external_lib}
    trust_remote_code: False
    override_config: {}
  rollout:
    _target_: verl.workers.config.RolloutConfig
    name: ???
    dtype: bfloat16
    gpu_memory_utilization: 0.5
    enforce_eager: true
    cudagraph_capture_sizes: null
    free_cache_engine: true
    data_parallel_size: 1
    expert_parallel_size: 1
    tensor_model_parallel_size: 2
    max_num_batched_tokens: 8192
    max_model_len: null
    max_num_seqs: 1024
    load_format: auto
    engine_kwargs: {}
    limit_images: null
    enable_chunked_prefill: true
    enable_prefix_caching: true
    disable_log_stats: true
    skip_tokenizer_init: false
    prompt_length: 2048
    response_length: 2048
  sandbox_fusion:
    url: null
    max_concurrent: 64
    memory_limit_mb: 1024
reward_manager:
  _target_: verl.trainer.config.config.RewardManagerConfig
  source: register
  name: \${oc.select:reward_model.reward_manager,naive}
  module:
    path: null
    name: custom_reward_manager
custom_reward_function:
  path: null
  name: compute_score
`

/** verl's reward section since 2026-02: every key with its default. */
export const current = `
reward:
  _target_: verl.workers.config.RewardConfig
  num_workers: 8
  custom_reward_function:
    path: null
    name: compute_score
  reward_manager:
    _target_: verl.workers.config.reward.RewardManagerConfig
    source: register
    name: naive
    module:
      _target_: verl.trainer.config.config.ModuleConfig
      path: null
      name: custom_reward_manager
  reward_model:
    _target_: verl.workers.config.RewardModelConfig
    enable: False
    enable_resource_pool: False
    n_gpus_per_node: 8
    nnodes: 0
    model_path: null
    rollout:
      _target_: verl.workers.config.RolloutConfig
      name: ???
      dtype: bfloat16
      gpu_memory_utilization: 0.5
      enforce_eager: true
      cudagraph_capture_sizes: null
      free_cache_engine: true
      data_parallel_size: 1
      expert_parallel_size: 1
      tensor_model_parallel_size: 2
      pipeline_model_parallel_size: 1
      max_num_batched_tokens: 8192
      max_model_len: null
      max_num_seqs: 1024
      load_format: auto
      layered_summon: false
      scheduling_policy: fcfs
      full_determinism: false
      seed: 42
      multi_stage_wake_up: false
      engine_kwargs: {}
      limit_images: null
      enable_chunked_prefill: true
      enable_prefix_caching: true
      disable_log_stats: true
      skip_tokenizer_init: false
      ignore_eos: false
      temperature: 1.0
      top_k: -1
      top_p: 1
      do_sample: true
      n: 1
      prompt_length: 2048
      response_length: 2048
      quantization: null
      quantization_config_file: null
      mtp: null
      disaggregation:
        enabled: false
        prefill_replicas: 1
  sandbox_fusion:
    _target_: verl.workers.config.SandboxFusionConfig
    url: null
    max_concurrent: 64
    memory_limit_mb: 1024
`
