import type { ErrorReason } from '../contract/error-reasons.ts'
import type { RegisterServerInput } from '../contract/servers.ts'
import { RewardOpsError } from '../errors.ts'
import { maskSecrets } from '../mask-secrets.ts'
import { ChatTemplateError, takesChatTemplate, tryChatTemplate } from '../router/chat-template.ts'
import {
  abilitiesOf,
  type EngineName,
  type ProbedServer,
  type ProbeFailure,
} from '../router/server-admission.ts'
import type { ProbedFacts, RegistrationFields } from '../store/server-registry.ts'
import { type ServerRow, settingsOfRow, toStored } from '../store/sql/servers.ts'

/** A probe's failure as an error for the caller, without the API key that a server may have echoed. */
export function refusal(failure: ProbeFailure, apiKey: string | null = null): RewardOpsError {
  return new RewardOpsError(failure.reason as ErrorReason, maskSecrets(failure.message, [apiKey]), {
    hint: failure.hint,
  })
}

export function failureEvidence(
  failure: ProbeFailure,
  apiKey: string | null,
): Record<string, unknown> {
  return {
    reason: failure.reason,
    cause: failure.cause,
    message: maskSecrets(failure.message, [apiKey]),
  }
}

/**
 * Returns the chat template of a registration, extracted from a tokenizer_config.json if one was given, or null if the
 * registration has no template.
 * @throws RewardOpsError `unsupported_setting` if the server would not use it, `invalid_input` if it does not work
 */
export function readTemplate(
  input: Pick<RegisterServerInput, 'engine' | 'kind' | 'chatTemplate'>,
  route: ServerRow['route'],
): string | null {
  const { engine, kind, chatTemplate } = input
  if (chatTemplate == null) return null
  if (kind === 'generative') {
    throw new RewardOpsError(
      'unsupported_setting',
      'chatTemplate: a judge receives messages, which its server formats with its own template.',
      { hint: 'Leave it out, or start the judge’s server with --chat-template.' },
    )
  }
  if (engine !== 'auto' && !takesChatTemplate(engine, route)) {
    throw new RewardOpsError(
      'unsupported_setting',
      `chatTemplate: ${engine}${route === 'pair' ? ' on its pair route' : ''} receives prompt and response separately.`,
      { hint: 'Leave it out.' },
    )
  }
  try {
    return tryChatTemplate(chatTemplate).normalized
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error
    throw new RewardOpsError('invalid_input', `chatTemplate: ${error.message}.`, {
      hint: 'Paste the model’s tokenizer_config.json, or its chat template.',
    })
  }
}

/**
 * Checks that the engine of a registration supports the given route and label. With `auto`, this is checked after the
 * probe has detected the engine.
 * @throws RewardOpsError `unsupported_setting`
 */
export function checkScoreSettings(
  engine: RegisterServerInput['engine'],
  { kind, route, label }: Pick<RegisterServerInput, 'kind' | 'route' | 'label'>,
): void {
  for (const [field, given] of Object.entries({ route, label })) {
    if (given == null || kind !== 'generative') continue
    throw new RewardOpsError(
      'unsupported_setting',
      `${field}: a judge returns replies, not scores.`,
      {
        hint: 'Leave it out.',
      },
    )
  }
  if (engine === 'auto') return
  const { routes, labels } = abilitiesOf(engine)
  if (route != null && !routes.includes(route)) {
    const has = routes.map((one) => `"${one}"`).join(', ')
    throw new RewardOpsError(
      'unsupported_setting',
      `route: ${engine} does not support "${route}".`,
      { hint: has === '' ? 'Leave it out.' : `Leave it out, or give ${has}.` },
    )
  }
  if (label == null) return
  const index = /^(?:label_?)?(\d+)$/i.exec(label)?.[1]
  const hint =
    labels === null
      ? 'Leave it out.'
      : labels === 'two'
        ? 'llama.cpp returns only label 0: use 0, or 1 for the second of two labels.'
        : `${engine} does not report label names: use a 0-based index.`
  const fits =
    labels === 'name' ||
    (labels === 'index' && index !== undefined) ||
    (labels === 'two' && index !== undefined && Number(index) <= 1)
  if (!fits || (route === 'pair' && labels !== 'two')) {
    const what =
      route === 'pair' && fits
        ? 'the pair route of the server returns one score'
        : `${engine} cannot score the label "${label}"`
    throw new RewardOpsError('unsupported_setting', `label: ${what}.`, {
      hint: fits ? 'Leave it out.' : hint,
    })
  }
}

/** Checks that an engine supports a kind of model. @throws RewardOpsError `unsupported_setting` */
export function checkKind(engine: EngineName, kind: RegisterServerInput['kind']): void {
  const { scores, chats } = abilitiesOf(engine)
  if (kind === 'generative' && !chats) {
    throw new RewardOpsError(
      'unsupported_setting',
      `kind: ${engine} does not support chat completions, so it cannot serve a judge.`,
      { hint: 'Register it with "kind": "discriminative".' },
    )
  }
  if (kind === 'discriminative' && !scores) {
    throw new RewardOpsError(
      'unsupported_setting',
      `kind: ${engine} returns replies, not scores.`,
      {
        hint: 'Register it with "kind": "generative".',
      },
    )
  }
}

/**
 * Checks that all servers of a model have the same kind, because requests for scores fail on judges.
 * @throws RewardOpsError `invalid_input`
 */
export function checkPool(
  name: string,
  fields: RegistrationFields,
  others: readonly Pick<ServerRow, 'name' | 'model' | 'kind'>[],
): void {
  const other = others.find(
    (row) => row.name !== name && row.model === fields.model && row.kind !== fields.kind,
  )
  if (other) {
    throw new RewardOpsError(
      'invalid_input',
      `model: "${fields.model}" is ${other.kind} on ${other.name}; all servers of a model must have the same kind.`,
      { hint: `Register it under another model name, or with "kind": "${other.kind}".` },
    )
  }
}

export function probeWishes(
  input: Pick<RegisterServerInput, 'kind' | 'model' | 'route' | 'label' | 'chatTemplate'>,
) {
  return {
    kind: input.kind,
    model: input.model ?? null,
    route: input.route ?? null,
    label: input.label ?? null,
    templated: input.chatTemplate != null,
  }
}

export function probeOfRow(row: ServerRow) {
  const { url, engine, apiKey } = row
  return { url, engine, apiKey, ...probeWishes({ ...row, ...settingsOfRow(row) }) }
}

/** The scoring route that an earlier probe found, or null. If the server is `inUse`, its route is not probed again. */
export function knownRoute(row: Pick<ServerRow, 'route' | 'plainText'>, inUse: boolean) {
  return row.route === null ? null : { route: row.route, plainText: row.plainText, inUse }
}

/**
 * Combines a registration with the facts that the probe found.
 * @throws RewardOpsError `invalid_input` if neither the registration nor the probe names the model,
 * `unsupported_setting` for a route or label that the engine does not support
 */
export function fieldsOf(input: RegisterServerInput, probe: ProbedServer): RegistrationFields {
  const model = input.model ?? probe.model
  if (model === null) {
    throw new RewardOpsError(
      'invalid_input',
      `model: ${input.name} does not report the model it serves.`,
      { hint: 'Give the model’s name.' },
    )
  }
  const label = probe.label ?? input.label ?? null
  checkScoreSettings(probe.engine, { ...input, route: probe.route ?? null, label: input.label })
  return fields({ ...input, label }, probe.url, probe.engine, model, probe.route ?? null)
}

/**
 * The registration of a server that cannot be used yet. A forbidden URL is never kept.
 * @throws RewardOpsError the probe's failure, unless `ifUnreachable` is "keep" and engine and model are given
 */
export function keptFields(
  input: RegisterServerInput,
  url: string,
  failure: ProbeFailure,
): RegistrationFields {
  if (input.ifUnreachable !== 'keep' || failure.reason === 'forbidden_url')
    throw refusal(failure, input.apiKey ?? null)
  if (input.engine === 'auto' || input.model == null) {
    throw new RewardOpsError(
      failure.reason as ErrorReason,
      `${maskSecrets(failure.message, [input.apiKey])}; to keep it until it answers, its engine and model must be given.`,
      { hint: 'Add "engine" (not "auto") and "model".' },
    )
  }
  return fields(input, url, input.engine, input.model, null)
}

function fields(
  input: RegisterServerInput,
  url: string,
  engine: EngineName,
  model: string,
  route: ServerRow['route'],
): RegistrationFields {
  return {
    ...toStored(input),
    url,
    engine,
    kind: input.kind,
    model,
    chatTemplate: readTemplate({ ...input, engine }, route),
  }
}

export function factsOf(probe: ProbedServer, apiKey: string | null): ProbedFacts {
  return {
    version: probe.version,
    maxModelLen: probe.maxModelLen,
    ...(probe.sleeping && probe.route == null
      ? {}
      : { route: probe.route ?? null, plainText: probe.plainText ?? false }),
    ...(probe.label === undefined ? {} : { label: probe.label }),
    maxConcurrent: probe.maxConcurrent ?? null,
    canSleep: probe.canSleep ?? false,
    ...(probe.warnings === undefined
      ? {}
      : { warnings: probe.warnings.map((warning) => maskSecrets(warning, [apiKey])) }),
  }
}
