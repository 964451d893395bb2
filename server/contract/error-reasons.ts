/**
 * The HTTP status and the remedy of one reason for refusing a call. Clients switch on the reasons, and docs/api.md
 * lists them.
 */
export interface ErrorReasonRow {
  httpStatus: 400 | 401 | 403 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 500 | 502 | 503 | 504
  /** The remedy. A thrown error may give a more exact remedy. */
  hint: string
}

export const ERROR_REASONS = {
  malformed_request: {
    httpStatus: 400,
    hint: 'Send one Host header, and a path that begins with "/" as the target of the request.',
  },
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
  integer_out_of_range: { httpStatus: 400, hint: 'Send the integer as a string.' },
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
    hint: 'Put the file into the folder REWARDOPS_FUNCTIONS_DIR and give the path relative to that folder.',
  },
  invalid_function: {
    httpStatus: 422,
    hint: 'Correct the file as the message says; docs/functions.md describes reward functions.',
  },
  unsupported_setting: {
    httpStatus: 422,
    hint: 'Leave the named setting out: this version does not support it.',
  },
  batch_not_found: {
    httpStatus: 404,
    hint: 'Check the batchId; batches.list shows existing batches.',
  },
  run_not_found: {
    httpStatus: 404,
    hint: 'Check the name. A run is created by its first batch or by runs.update; runs.list shows existing runs.',
  },
  prompt_not_found: {
    httpStatus: 404,
    hint: 'Check the key; prompts.list shows the prompts of a run.',
  },
  no_pass_rates: {
    httpStatus: 409,
    hint: 'Use a run that a rule or function scores, and wait until its first batch has ended.',
  },
  no_such_step: {
    httpStatus: 404,
    hint: 'Choose steps of ended batches; runs.get lists the steps of a run.',
  },
  too_many_samples: { httpStatus: 400, hint: 'Choose fewer steps.' },
  sample_not_found: {
    httpStatus: 404,
    hint: 'Check the sample id: the batch id, "-" and the index, such as b12-3.',
  },
  webhook_not_found: {
    httpStatus: 404,
    hint: 'Check the id; alerts.list shows existing webhooks.',
  },
  mark_not_found: {
    httpStatus: 404,
    hint: 'Check the id; marks.list shows the marks of a run.',
  },
  annotation_not_found: {
    httpStatus: 404,
    hint: 'The annotation was deleted; annotations.of shows the annotations of a sample.',
  },
  view_not_found: {
    httpStatus: 404,
    hint: 'The view was deleted; views.list shows existing views.',
  },
  view_exists: { httpStatus: 409, hint: 'Choose another name, or change the view with this name.' },
  too_many_views: { httpStatus: 409, hint: 'Delete unused views, then save again.' },
  not_the_author: {
    httpStatus: 403,
    hint: 'Ask the author to make the change, or use a key with the role admin.',
  },
  server_not_found: {
    httpStatus: 404,
    hint: 'Check the id or name; servers.list shows existing servers.',
  },
  batch_closed: {
    httpStatus: 409,
    hint: 'The batch accepts no more samples. Submit a new one with "open": true to stream samples into it.',
  },
  batch_open: {
    httpStatus: 409,
    hint: 'Close the batch with batches.close first. More samples may be appended to an open batch, so it cannot be rescored.',
  },
  append_gap: {
    httpStatus: 409,
    hint: 'Append from the index named in the message: indexes must be contiguous.',
  },
  append_conflict: {
    httpStatus: 409,
    hint: 'Different samples are already stored at these indexes. Repeat an append unchanged, or continue after the last index.',
  },
  idempotency_conflict: {
    httpStatus: 409,
    hint: 'The key was used for different content. Use a new idempotencyKey for new content.',
  },
  cursor_mismatch: {
    httpStatus: 400,
    hint: 'Use a cursor that batches.next returned for this batch, or null to start from the beginning.',
  },
  server_unreachable: {
    httpStatus: 422,
    hint: 'Start the server and try again, or register it with "ifUnreachable": "keep" while it loads.',
  },
  server_redirects: {
    httpStatus: 422,
    hint: 'Register the target of the redirect: redirects are not followed.',
  },
  server_not_recognized: {
    httpStatus: 422,
    hint: 'Set "engine", or check that the URL is the root of a reward-model server.',
  },
  model_not_served: {
    httpStatus: 422,
    hint: 'Leave model out, or give a model the server serves.',
  },
  key_refused: {
    httpStatus: 422,
    hint: 'Set apiKey to the key that the server was started with.',
  },
  server_busy: {
    httpStatus: 409,
    hint: 'Another action is in progress on the server, or it has requests in flight. servers.get shows its state; retry later.',
  },
  server_cannot_sleep: {
    httpStatus: 422,
    hint: 'Only vLLM and SGLang support sleep, and only with the start-up options in docs/servers.md.',
  },
  server_not_launched: {
    httpStatus: 422,
    hint: 'Only servers of REWARDOPS_SERVERS_FILE and servers.launch have a log here. For other servers, see the log where they were started.',
  },
  launch_disabled: {
    httpStatus: 403,
    hint: 'Set REWARDOPS_ALLOW_LAUNCH=1, or list the server in the file that REWARDOPS_SERVERS_FILE names.',
  },
  forbidden_url: {
    httpStatus: 400,
    hint: 'Give an http:// or https:// URL without credentials, with a host that REWARDOPS_EGRESS_ALLOW lists; link-local addresses are always refused.',
  },
  sandbox_unavailable: {
    httpStatus: 422,
    hint: 'Install bubblewrap on the machine of the service and allow user namespaces, or set kwargs.sandbox to a sandbox in REWARDOPS_SANDBOXES.',
  },
  unauthorized: {
    httpStatus: 401,
    hint: 'Send "Authorization: Bearer <key>" with a key from REWARDOPS_API_KEYS, or one created under Settings, Access.',
  },
  too_many_wrong_keys: {
    httpStatus: 429,
    hint: 'Correct the key. A valid key from the same IP address is accepted at any time; wrong ones are checked again after Retry-After.',
  },
  forbidden_role: {
    httpStatus: 403,
    hint: 'Use a key with the required role. An admin creates keys under Settings, Access, or with keys.create.',
  },
  forbidden_scope: {
    httpStatus: 403,
    hint: 'Use a key without this limit. An admin creates keys under Settings, Access, or with keys.create.',
  },
  name_taken: { httpStatus: 409, hint: 'Choose another name, or revoke the key with this name.' },
  too_many_keys: { httpStatus: 409, hint: 'Revoke unused keys.' },
  key_not_found: { httpStatus: 404, hint: 'keys.list shows existing keys.' },
  session_not_found: {
    httpStatus: 404,
    hint: 'The session has ended; sessions.list shows open sessions.',
  },
  last_admin_key: {
    httpStatus: 409,
    hint: 'Create another admin key without expiry first, or stop requiring API keys. Otherwise no admin access would remain.',
  },
  admin_key_needed: {
    httpStatus: 422,
    hint: 'Create an admin key without expiry with keys.create, store it, and enter it here.',
  },
  keys_configured: {
    httpStatus: 409,
    hint: 'Start the service without REWARDOPS_API_KEYS to change this setting.',
  },
  run_queue_full: {
    httpStatus: 429,
    hint: 'Send the same request again after Retry-After: samples of this run must end first. An admin sets the limit under Settings, Limits.',
  },
  run_limit: {
    httpStatus: 422,
    hint: 'Stay below the limit in the message. An admin sets the limits of a run under Settings, Limits.',
  },
  run_busy: {
    httpStatus: 409,
    hint: "Wait until the run's batches have ended, or cancel them with batches.cancel, then retry.",
  },
  removed_by_retention: {
    httpStatus: 409,
    hint: 'Old data is removed by the policy under Settings, Retention, and cannot be restored. Run statistics may still exist. Set texts=kept to export the remaining data.',
  },
  not_confirmed: { httpStatus: 400, hint: 'Repeat the exact name of the run.' },
  removal_under_way: {
    httpStatus: 409,
    hint: 'Only one removal can run at a time. Wait for it, or cancel it with retention.cancel.',
  },
  forbidden_host: {
    httpStatus: 403,
    hint: 'List the host name in REWARDOPS_ALLOWED_HOSTS. If that is unset, the service accepts any host name with API keys, and only loopback names without them.',
  },
  forbidden_proxy: {
    httpStatus: 403,
    hint: 'Set REWARDOPS_API_KEYS, or require API keys under Settings, Access. Behind a proxy every request appears to be local.',
  },
  forbidden_user: {
    httpStatus: 403,
    hint: 'Set REWARDOPS_API_KEYS, or require API keys under Settings, Access. Without API keys the service accepts only processes of its own user and root.',
  },
  forbidden_origin: {
    httpStatus: 403,
    hint: "Open the dashboard at the service's own URL. Behind a proxy, forward the Host header, or trust the proxy (REWARDOPS_TRUSTED_PROXIES) and set X-Forwarded-Host.",
  },
  not_found: { httpStatus: 404, hint: 'See docs/api.md for the procedures.' },
  method_not_allowed: {
    httpStatus: 405,
    hint: 'Use GET or POST for queries, and POST for mutations.',
  },
  unsupported_encoding: {
    httpStatus: 415,
    hint: 'Send the body uncompressed or with gzip or zstd; send JSON as application/json.',
  },
  bad_encoding: {
    httpStatus: 400,
    hint: 'The body does not match its Content-Encoding. Send it plain, or compress it again.',
  },
  body_too_large: {
    httpStatus: 413,
    hint: 'Send at most 256 MiB uncompressed: split the step over several batches, or append to an open one.',
  },
  image_too_large: {
    httpStatus: 413,
    hint: 'Send a smaller image, or raise REWARDOPS_MAX_IMAGE_MB.',
  },
  image_not_found: {
    httpStatus: 404,
    hint: 'Check the hash; samples.get with "imagesByHash": true returns the hashes of a sample. Images are removed with their samples.',
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
    hint: "Use a path that the model's servers support; the message names their engines.",
  },
  queue_full: {
    httpStatus: 429,
    hint: 'Too many requests are queued for this model. Send the same request again after Retry-After.',
  },
  not_scored: {
    httpStatus: 503,
    hint: 'This protocol cannot carry a sample without a score. Add ?onFailure=<number> to the URL to return that number instead, marked as substituted.',
  },
  no_server: {
    httpStatus: 503,
    hint: 'No server of this model is available; servers.list shows the reason. Send the same request again after Retry-After.',
  },
  model_asleep: {
    httpStatus: 503,
    hint: 'The servers of this model are asleep and are being woken. Send the same request again after Retry-After.',
  },
  upstream_failed: {
    httpStatus: 503,
    hint: 'All attempted servers failed; x-upstream-status has the last status. Send the same request again after Retry-After.',
  },
  upstream_redirects: {
    httpStatus: 502,
    hint: 'Register the target of the redirect: redirects are not followed.',
  },
  deadline: {
    httpStatus: 504,
    hint: 'No response started within x-deadline-ms (default and maximum: ten minutes). Allow more time, or add servers.',
  },
  busy: { httpStatus: 503, hint: 'Send the same request again after retryAfterMs.' },
  shutting_down: {
    httpStatus: 503,
    hint: 'The service is stopping. Send the same request again after retryAfterMs.',
  },
  database_unavailable: {
    httpStatus: 503,
    hint: 'The database is not responding. Send the same request again after retryAfterMs; with an idempotencyKey nothing is stored twice.',
  },
  plan_too_large: {
    httpStatus: 422,
    hint: 'Plan fewer steps, samples, limits or servers. The mean step time hardly depends on the number of steps.',
  },
  nothing_recorded: {
    httpStatus: 422,
    hint: 'Wait until samples have ended, select another batch or run, or enter a distribution.',
  },
  comparison_too_large: {
    httpStatus: 422,
    hint: 'Compare batches of at most 131,072 samples. Runs of any size can be compared by step.',
  },
  query_timeout: {
    httpStatus: 503,
    hint: 'The query timed out. Narrow the filter.',
  },
  internal: {
    httpStatus: 500,
    hint: 'This is an internal error. The log has details under the requestId.',
  },
} as const satisfies Record<string, ErrorReasonRow>

export type ErrorReason = keyof typeof ERROR_REASONS

/**
 * Titles on pages. They are not part of ERROR_REASONS, because pages would load its hints too: 3 KB compressed on the
 * first load.
 */
export const ERROR_TITLES: Partial<Record<ErrorReason, string>> = {
  batch_not_found: 'Batch not found',
  sample_not_found: 'Sample not found',
  server_not_found: 'Server not found',
  database_unavailable: 'Database unavailable',
  plan_too_large: 'Plan too large',
  nothing_recorded: 'No recorded data yet',
  query_timeout: 'Query timed out',
  unauthorized: 'API key required',
  forbidden_role: 'Insufficient role',
  removed_by_retention: 'Removed by retention',
  run_queue_full: 'Run queue full',
  run_limit: 'Run limit exceeded',
  internal: 'Internal service error',
  busy: 'Service busy',
  shutting_down: 'Service stopping',
}

/** The field `error.data` of every refused call. */
export interface ErrorData {
  /** tRPC's name for the HTTP status, such as `NOT_FOUND`. */
  code: string
  httpStatus: number
  reason: ErrorReason
  hint: string
  /** Identifies the request in the log. */
  requestId: string
  /** The called procedure, or null for a request outside tRPC. */
  path: string | null
  /** Time in ms after which the caller should repeat the request. */
  retryAfterMs?: number
}
