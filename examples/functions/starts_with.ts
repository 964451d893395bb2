/**
 * Scores 1 if the response begins with the ground truth, else 0.
 * "reward": {"function": {"path": "starts_with.ts"}}
 */
export function compute_score(input: { solution_str: string; ground_truth: unknown }) {
  return Number(input.solution_str.startsWith(String(input.ground_truth)))
}
