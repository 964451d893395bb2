/**
 * A synchronous reward function with verl's argument names. It compares the number after `####` with the ground truth and
 * subtracts a penalty for every token beyond a budget.
 * "reward": {"function": {"path": "length_penalty.ts", "kwargs": {"budget": 512, "per_token": 0.001}}}
 */
interface Input {
  solution_str: string
  ground_truth: unknown
  response_length: number | null
  budget?: number
  per_token?: number
}

export function compute_score({
  solution_str,
  ground_truth,
  response_length,
  budget = 512,
  per_token = 0.001,
}: Input) {
  const pred = /####\s*(-?[\d.,]+)/.exec(solution_str)?.[1]?.replaceAll(',', '') ?? null
  const acc = pred !== null && Number(pred) === Number(ground_truth)
  const beyond = Math.max(0, (response_length ?? 0) - budget)
  // Keys other than the score are reward extra info: columns in the results, fields in the dashboard.
  return { score: Number(acc) - beyond * per_token, acc, pred, tokens_beyond: beyond }
}
