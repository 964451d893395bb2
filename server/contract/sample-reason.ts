/**
 * Reasons why samples fail. Trainers match on them, so their meaning never changes. A failed sample has exactly one.
 */
export const SAMPLE_FAILURE_REASONS = [
  'timeout',
  'transport',
  'rejected',
  'context_exceeded',
  'unparseable',
  'non_finite',
  'function_error',
  'worker_lost',
  'no_server',
  'deadline',
  'cancelled',
] as const

export type SampleFailureReason = (typeof SAMPLE_FAILURE_REASONS)[number]

/** The meaning of each reason, as the dashboard and the docs print it. */
export const SAMPLE_FAILURE_TEXT: Readonly<Record<SampleFailureReason, string>> = {
  timeout: 'The sample was not scored within timeoutMs of its first dispatch, retries included.',
  transport:
    'Every attempt failed because of a reward-model server: it was unreachable, the connection broke, or the response was an error, an HTML page or a redirect.',
  rejected:
    'The reward model refused this sample (4xx) but scored others, or its chat template does not support the conversation.',
  context_exceeded: 'The text exceeds the context length of the reward model.',
  unparseable: 'Invalid response: the reward-model server returned no score.',
  non_finite: 'The reward model returned NaN or infinity.',
  function_error: 'The rule or reward function raised an error on this sample.',
  worker_lost: 'Three workers died while this sample was assigned to them.',
  no_server: 'No healthy server of the model was free before the timeout.',
  deadline: 'The batch’s deadlineMs passed before the sample was scored.',
  cancelled: 'The batch was cancelled before the sample was scored.',
}
