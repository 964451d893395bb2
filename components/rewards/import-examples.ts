interface ImportExample {
  name: string
  text: string
}

export const IMPORT_EXAMPLES: readonly ImportExample[] = [
  {
    name: 'YAML, new keys',
    text: `reward:
  num_workers: 8
  reward_manager:
    source: register
    name: dapo
  reward_kwargs:
    max_resp_len: 20480
    overlong_buffer_cfg:
      enable: True
      len: 4096
      penalty_factor: 1.0
  reward_model:
    enable: False
  sandbox_fusion:
    url: null
actor_rollout_ref:
  rollout:
    n: 16
algorithm:
  norm_adv_by_std_in_grpo: True
`,
  },
  {
    name: 'YAML, old keys',
    text: `reward_model:
  enable: True
  enable_resource_pool: True
  n_gpus_per_node: 8
  nnodes: 1
  reward_manager: naive
  model:
    path: Skywork/Skywork-Reward-V2-Llama-3.1-8B
    trust_remote_code: False
  rollout:
    name: vllm
    tensor_model_parallel_size: 4
    gpu_memory_utilization: 0.8
custom_reward_function:
  path: null
  name: compute_score
`,
  },
  {
    name: 'Command line',
    text: `max_response_length=$((1024 * 20))
python3 -m verl.trainer.main_ppo \\
    reward_model.reward_manager=dapo \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.enable=True \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.len=4096 \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.penalty_facor=1.0 \\
    +reward_model.reward_kwargs.max_resp_len=\${max_response_length} \\
    custom_reward_function.path=recipe/my_reward.py \\
    trainer.nnodes=1
`,
  },
]
