/**
 * A reward function as verl's users write them, carried over word for word: the answer after `####` against the ground
 * truth, less a penalty for every token beyond a budget. It computes and returns at once.
 *
 *   "reward": {"function": {"path": "length_penalty.ts", "kwargs": {"budget": 512, "per_token": 0.001}}}
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
  // Every key beside the score is extra info: a column in the results, a field in the dashboard.
  return { score: Number(acc) - beyond * per_token, acc, pred, tokens_beyond: beyond }
}
