import { z } from 'zod'
import type { JudgeDto, ManagerDto, OptionDto, RuleDto } from '../contract/rewards.ts'
import { plainText } from '../plain-text.ts'
import { BUILTIN_JUDGES } from './judge/builtin-templates.ts'
import { RATE_LIMITED, rateLimitedOptions } from './limits/limit-settings.ts'
import { gdpoOptions } from './managers/gdpo.ts'
import { dapoOptions } from './managers/overlong-buffer.ts'
import { MANAGER_ALIASES, managerNames } from './managers/registry.ts'
import { remoteOptions } from './managers/remote.ts'
import { listAsyncRules, listRules } from './rules/registry.ts'
import type { RuleDescription } from './rules/rule.ts'

const MANAGERS: Readonly<Record<string, { description: string; kwargs?: z.ZodObject }>> = {
  naive: {
    description: 'Scores each sample with the scorer of the batch; the score is the reward.',
  },
  dapo: {
    description: 'As naive, and a penalty for overlong responses is added to the score.',
    kwargs: dapoOptions,
  },
  [RATE_LIMITED]: {
    description: 'As naive, within limits on calls, tokens and concurrency that all workers share.',
    kwargs: rateLimitedOptions,
  },
  remote: {
    description:
      'As naive, with functions and rules in separate processes, one call at a time; a process is killed when its call times out.',
    kwargs: remoteOptions,
  },
  gdpo: {
    description:
      'As naive, with advantages of several dimensions, normalized one by one and then summed.',
    kwargs: gdpoOptions,
  },
  batch: { description: 'A whole group in one call of the reward function.' },
}

export function describeRules(): RuleDto[] {
  const of = (callsService: boolean) => (rule: RuleDescription) => ({
    name: rule.name,
    title: rule.title,
    dataSources: [...rule.dataSources],
    callsService,
    options: describeOptions(rule.kwargs),
  })
  return [...listRules().map(of(false)), ...listAsyncRules().map(of(true))]
}

export function describeManagers(): ManagerDto[] {
  return managerNames().map((name) => ({
    name,
    aliases: Object.keys(MANAGER_ALIASES).filter((alias) => MANAGER_ALIASES[alias] === name),
    description: MANAGERS[name]?.description ?? '',
    options: MANAGERS[name]?.kwargs === undefined ? [] : describeOptions(MANAGERS[name].kwargs),
  }))
}

export function describeJudges(): JudgeDto[] {
  return [...BUILTIN_JUDGES.values()].map(({ name, kind, turns, parser, votes, sampling }) => {
    const { kind: parserKind, ...options } = parser
    return {
      name,
      kind,
      turns,
      parser: { kind: parserKind, options },
      votes: { ...votes },
      temperature: sampling.temperature,
      maxTokens: sampling.maxTokens,
    }
  })
}

interface Schema {
  type?: string
  enum?: unknown[]
  const?: unknown
  default?: unknown
  description?: string
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  minItems?: number
  maxItems?: number
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  integer: 'whole number',
  number: 'number',
  string: 'text',
  boolean: 'true or false',
  array: 'list',
  object: 'object',
  null: 'null',
}

/** Lists the options that a schema defines. Nested options have dotted names. */
export function describeOptions(options: z.ZodObject): OptionDto[] {
  const schema = z.toJSONSchema(options, { io: 'input', unrepresentable: 'any' }) as Schema
  return flat(schema, '')
}

function flat(schema: Schema, prefix: string): OptionDto[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, option]) => {
    const name = prefix + key
    const inner = [option, ...(option.anyOf ?? [])].find((one) => one.properties !== undefined)
    if (inner !== undefined) return flat(inner, `${name}.`)
    return {
      name,
      type: typeOf(option),
      choices: option.enum?.map(String) ?? null,
      defaultJson: option.default === undefined ? null : JSON.stringify(option.default),
      description: plainText(option.description ?? ''),
    }
  })
}

function typeOf(schema: Schema): string {
  if (schema.enum !== undefined) return 'one of'
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ')
  if (schema.type === 'array' && schema.items !== undefined) {
    const count = schema.minItems !== undefined && schema.minItems === schema.maxItems
    return `list of ${count ? `${schema.minItems} ` : ''}${typeOf(schema.items)}s`
  }
  return TYPE_WORDS[schema.type ?? ''] ?? 'any'
}
