/** A batch's reward as it was resolved when the batch was accepted; stored with it, read by the workers. */
export interface ResolvedReward {
  kind: 'rule' | 'model'
  manager: string
  /** The reward model whose servers score; null for rules. */
  model: string | null
  kwargs: Record<string, unknown>
  /** A rule chosen by name, for every data source; absent: the one that a sample's data source selects. */
  rule?: string
  /** A generative model's template, checked and with its defaults filled in; absent: the model scores by itself. */
  judge?: Record<string, unknown>
  timeoutMs: number
  maxAttempts: number
  /** Most samples of the batch in flight at once over all workers; null: no limit of its own. */
  maxConcurrency: number | null
  /** Its servers are woken for it and put to sleep when no batch needs them; absent in batches of before: false. */
  sleepAfter?: boolean
  /** What happens to a failed sample's score, its group or its batch. */
  onFailure:
    | { policy: 'null' | 'group_mean' | 'drop_group' | 'fail_batch' }
    | { policy: 'constant'; value: number }
}
