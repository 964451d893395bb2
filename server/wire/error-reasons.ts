/**
 * Every reason a call can be refused for, one row a reason: what HTTP status it travels under and what to do.
 * This is the only table; clients switch on the words, the docs print it, nothing else makes reasons up.
 */
export interface ErrorReasonRow {
  httpStatus: 400 | 401 | 403 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 500 | 502 | 503 | 504
  /** What the caller should do. A thrown error may give a more exact hint. */
  hint: string
}

export const ERROR_REASONS = {
  malformed_json: { httpStatus: 400, hint: 'Send one valid JSON document as the body.' },
  invalid_input: { httpStatus: 400, hint: 'Correct the named field and send the request again.' },
  empty_batch: {
    httpStatus: 400,
    hint: 'Send at least one sample, or set "open": true and append samples later.',
  },
  duplicate_index: {
    httpStatus: 400,
    hint: 'Leave "index" out: samples are numbered in the order given, from 0.',
  },
  group_too_large: {
    httpStatus: 400,
    hint: 'Send at most groupSize samples per uid, raise groupSize, or leave groupSize out.',
  },
  integer_out_of_range: { httpStatus: 400, hint: 'Send it as a string.' },
  unknown_manager: { httpStatus: 400, hint: 'Use one of the managers named in the message.' },
  unknown_data_source: {
    httpStatus: 400,
    hint: 'Use a data source that has a rule, or name a reward model in reward.model.',
  },
  unknown_model: {
    httpStatus: 400,
    hint: 'Register a server of this model with servers.register, or use a model that is registered.',
  },
  invalid_kwargs: { httpStatus: 400, hint: 'Correct reward.kwargs as the message says.' },
  function_outside_folder: {
    httpStatus: 400,
    hint: 'Put the file under the folder named by REWARDOPS_FUNCTIONS_DIR and give its path relative to it.',
  },
  invalid_function: {
    httpStatus: 422,
    hint: 'Correct the file as the message says; docs/functions.md tells what a reward function is.',
  },
  unsupported_setting: {
    httpStatus: 422,
    hint: 'Leave the named setting out: this version does not honour it, and ignoring it would be worse.',
  },
  batch_not_found: {
    httpStatus: 404,
    hint: 'Check the batchId; batches.list shows those that exist.',
  },
  run_not_found: {
    httpStatus: 404,
    hint: 'Check its name; a run comes into being with its first batch. runs.list shows those that exist.',
  },
  sample_not_found: {
    httpStatus: 404,
    hint: 'Check the sample id: it is the batch id, "-", the index.',
  },
  webhook_not_found: {
    httpStatus: 404,
    hint: 'Check its id; alerts.list shows those that exist.',
  },
  mark_not_found: {
    httpStatus: 404,
    hint: 'Check its id; marks.list shows the marks of a run.',
  },
  annotation_not_found: {
    httpStatus: 404,
    hint: 'It was deleted, perhaps by its author: annotations.of shows those that a sample has.',
  },
  view_not_found: {
    httpStatus: 404,
    hint: 'It was deleted: views.list shows those that exist.',
  },
  view_exists: { httpStatus: 409, hint: 'Choose another name, or change the view that has it.' },
  too_many_views: { httpStatus: 409, hint: 'Delete views that nobody uses, then save again.' },
  not_the_author: {
    httpStatus: 403,
    hint: 'Ask its author, or use a key with the role admin.',
  },
  server_not_found: {
    httpStatus: 404,
    hint: 'Check the id or name; servers.list shows those that exist.',
  },
  batch_closed: {
    httpStatus: 409,
    hint: 'The batch takes no more samples. Submit a new one with "open": true to stream into it.',
  },
  batch_open: {
    httpStatus: 409,
    hint: 'Close it with batches.close first: while samples may follow, there is no whole to score again.',
  },
  append_gap: {
    httpStatus: 409,
    hint: 'Append from the index named in the message: nothing between may be missing.',
  },
  append_conflict: {
    httpStatus: 409,
    hint: 'Samples at these indexes were stored with other content. Repeat an append unchanged, or go on after the last index.',
  },
  idempotency_conflict: {
    httpStatus: 409,
    hint: 'The key was used for other content. Use a new idempotencyKey for new content.',
  },
  cursor_mismatch: {
    httpStatus: 400,
    hint: 'Use the cursor that batches.next gave for this very batch, or null to start from the beginning.',
  },
  server_unreachable: {
    httpStatus: 422,
    hint: 'Start the server and try again, or register it with "ifUnreachable": "keep" while it loads.',
  },
  server_redirects: {
    httpStatus: 422,
    hint: 'Register the address it redirects to: redirects are never followed.',
  },
  server_not_recognised: {
    httpStatus: 422,
    hint: 'Name its engine, or check that the address is the root of a reward-model server.',
  },
  model_not_served: {
    httpStatus: 422,
    hint: 'Leave model out, or give a model the server serves.',
  },
  key_refused: {
    httpStatus: 422,
    hint: 'Give the key the server was started with as apiKey.',
  },
  server_busy: {
    httpStatus: 409,
    hint: 'Something is being done with the server, or it has calls in flight. servers.get shows what; try again when that is over.',
  },
  server_cannot_sleep: {
    httpStatus: 422,
    hint: 'Only vLLM and SGLang can be put to sleep, and only when they were started for it: docs/servers.md says how.',
  },
  server_not_launched: {
    httpStatus: 422,
    hint: 'Only servers of REWARDOPS_SERVERS_FILE and servers.launch have a log here; look where the server was started.',
  },
  launch_disabled: {
    httpStatus: 403,
    hint: 'Set REWARDOPS_ALLOW_LAUNCH=1, or name the server in the file of REWARDOPS_SERVERS_FILE.',
  },
  forbidden_url: {
    httpStatus: 400,
    hint: 'Give an http:// or https:// address without credentials; link-local addresses are refused.',
  },
  unauthorized: {
    httpStatus: 401,
    hint: 'Send "Authorization: Bearer <key>" with a key of REWARDOPS_API_KEYS, or one made under Settings, Access.',
  },
  forbidden_role: {
    httpStatus: 403,
    hint: 'Use a key with that role: an admin makes one under Settings, Access, or with keys.create.',
  },
  name_taken: { httpStatus: 409, hint: 'Choose another name, or revoke the key that has it.' },
  too_many_keys: { httpStatus: 409, hint: 'Revoke keys that are not used any more.' },
  key_not_found: { httpStatus: 404, hint: 'keys.list shows those that exist.' },
  last_admin_key: {
    httpStatus: 409,
    hint: 'Make another admin’s key without an end first, or no longer need keys: nobody could change anything else.',
  },
  admin_key_needed: {
    httpStatus: 422,
    hint: 'Make an admin’s key without an end with keys.create, keep it, and show it here.',
  },
  keys_configured: {
    httpStatus: 409,
    hint: 'Start the service without REWARDOPS_API_KEYS to decide here.',
  },
  run_queue_full: {
    httpStatus: 429,
    hint: 'Send the same request again after Retry-After: samples of this run must end first. An admin sets the limit under Settings, Limits.',
  },
  run_limit: {
    httpStatus: 422,
    hint: 'Ask for less, as the message says; an admin sets the limits of a run under Settings, Limits.',
  },
  run_busy: {
    httpStatus: 409,
    hint: 'Wait until its batches have ended, or cancel them with batches.cancel, and ask again.',
  },
  removed_by_retention: {
    httpStatus: 409,
    hint: 'Old data is removed as set under Settings, Retention, and cannot be had again; statistics of runs may still be there. An export of what is left takes texts=kept.',
  },
  not_confirmed: { httpStatus: 400, hint: 'Give the run’s name once more, as it is written.' },
  removal_under_way: {
    httpStatus: 409,
    hint: 'One removal at a time: wait for it, or cancel it with retention.cancel.',
  },
  forbidden_host: {
    httpStatus: 403,
    hint: 'Without keys the service answers on loopback names only. Set REWARDOPS_API_KEYS to be reached by another name.',
  },
  forbidden_proxy: {
    httpStatus: 403,
    hint: 'Set REWARDOPS_API_KEYS, or make keys necessary under Settings, Access: behind a proxy everybody looks like this machine.',
  },
  forbidden_user: {
    httpStatus: 403,
    hint: 'Set REWARDOPS_API_KEYS, or make keys necessary under Settings, Access: without keys only processes of the service’s own user and root are served.',
  },
  forbidden_origin: {
    httpStatus: 403,
    hint: 'Requests from pages of another origin are refused.',
  },
  not_found: { httpStatus: 404, hint: 'See docs/api.md for the procedures that exist.' },
  method_not_allowed: {
    httpStatus: 405,
    hint: 'Queries are GET (or POST), mutations and anything that changes state are POST.',
  },
  unsupported_encoding: {
    httpStatus: 415,
    hint: 'Send the body plain, gzip or zstd; and JSON as application/json.',
  },
  bad_encoding: {
    httpStatus: 400,
    hint: 'The body does not unpack as its Content-Encoding says. Send it plain, or compress it again.',
  },
  body_too_large: {
    httpStatus: 413,
    hint: 'Send at most 256 MiB unpacked: split the step over several batches, or append to an open one.',
  },
  model_not_found: {
    httpStatus: 404,
    hint: 'Use a model that GET /v1/models lists, or register a server of it with servers.register.',
  },
  model_not_named: {
    httpStatus: 400,
    hint: 'Name the model as "model" in the body, or in the header x-model.',
  },
  path_not_served: {
    httpStatus: 404,
    hint: "Use a path that the engine of the model's servers has; the message names the engines.",
  },
  queue_full: {
    httpStatus: 429,
    hint: 'Too many requests wait for a server of this model. Send the same request again after Retry-After.',
  },
  not_scored: {
    httpStatus: 503,
    hint: 'This protocol cannot carry a sample without a score. Add ?onFailure=<number> to the address to have that number instead, marked as substituted.',
  },
  no_server: {
    httpStatus: 503,
    hint: 'No server of this model can be used now; servers.list says why. Send the same request again after Retry-After.',
  },
  model_asleep: {
    httpStatus: 503,
    hint: 'The servers of this model sleep and are being woken. Send the same request again after Retry-After.',
  },
  upstream_failed: {
    httpStatus: 503,
    hint: 'Every server that was tried failed; x-upstream-status has the last status. Send the same request again after Retry-After.',
  },
  upstream_redirects: {
    httpStatus: 502,
    hint: 'Register the address the server redirects to: redirects are never followed.',
  },
  deadline: {
    httpStatus: 504,
    hint: 'No answer had begun when x-deadline-ms, or ten minutes, had passed. Allow more time, or add servers.',
  },
  busy: { httpStatus: 503, hint: 'Send the same request again after retryAfterMs.' },
  shutting_down: {
    httpStatus: 503,
    hint: 'The service is stopping. Send the same request again after retryAfterMs.',
  },
  database_unavailable: {
    httpStatus: 503,
    hint: 'The database is not answering. Send the same request again after retryAfterMs; with an idempotencyKey nothing is stored twice.',
  },
  plan_too_large: {
    httpStatus: 422,
    hint: 'Plan fewer steps, samples, limits or servers: what a step costs on average hardly depends on how many there are.',
  },
  nothing_recorded: {
    httpStatus: 422,
    hint: 'Wait until samples have ended, name another batch or run, or type the numbers.',
  },
  comparison_too_large: {
    httpStatus: 422,
    hint: 'Compare batches of at most 131,072 samples; runs of any size are compared by their steps, from roll-ups.',
  },
  query_timeout: {
    httpStatus: 503,
    hint: 'The query took too long and was stopped. Narrow the filter.',
  },
  internal: {
    httpStatus: 500,
    hint: 'This is our fault. The log has the details under the requestId.',
  },
} as const satisfies Record<string, ErrorReasonRow>

/** One word of {@link ERROR_REASONS}. */
export type ErrorReason = keyof typeof ERROR_REASONS

/** `error.data` of every refused call. */
export interface ErrorData {
  code: string
  httpStatus: number
  reason: ErrorReason
  hint: string
  requestId: string
  path: string | null
  retryAfterMs?: number
}
