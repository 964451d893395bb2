import type { z } from 'zod'
import { Int4, name } from './fields.ts'

interface SampleField {
  schema: z.ZodType
  type: 'integer' | 'text'
  /**
   * The field's place in inputs and exports. `prompt`: before the prompt. `response`: after the response and the inputs
   * of the reward.
   */
  about: 'prompt' | 'response'
  /**
   * The outputs that have the field. `details`: `samples.get`. `rows`: also `samples.list` and the Samples table.
   * `results`: also `batches.results`, `batches.next` and `samples.score`.
   */
  readIn: 'details' | 'rows' | 'results'
  label: string
  unit?: string
  /** The name of the field's column in the Samples table. Default: the field's name. */
  tableColumn?: string
}

const integer = { type: 'integer', schema: Int4.nullish() } as const
const text = (maxChars: number) => ({ type: 'text', schema: name(maxChars).nullish() }) as const

/**
 * Optional fields of a rollout. Each has a column of its name, in snake case, in the table `sample`. Inputs, storage,
 * exports, imports, the Samples table and the sample panel derive from this list. Exports keep its order.
 */
export const SAMPLE_FIELDS = {
  /**
   * The prompt's id in the trainer's dataset, used to track it over steps. If it is null or omitted, equal texts of one
   * data source are one prompt.
   */
  promptId: { ...text(256), about: 'prompt', readIn: 'details', label: 'Prompt id' },
  /** The length of the response in tokens. */
  responseLength: {
    ...{ ...integer, about: 'response', readIn: 'rows' },
    ...{ label: 'Length', unit: 'tok', tableColumn: 'length' },
  },
} as const satisfies Record<string, SampleField>

type Fields = typeof SAMPLE_FIELDS
export type SampleFieldName = keyof Fields
type Value<Name extends SampleFieldName> = NonNullable<z.infer<Fields[Name]['schema']>> | null
type Read<In extends SampleField['readIn']> = {
  [Name in keyof Fields as Fields[Name]['readIn'] extends In ? Name : never]: Value<Name>
}

/** The fields as `samples.get` returns them. A field is null if the trainer did not send it. */
export type DetailFields = Read<'details' | 'rows' | 'results'>
/** The fields of `samples.list`. */
export type RowFields = Read<'rows' | 'results'>
/** The fields of results. */
export type ResultFields = Read<'results'>

export const DETAIL_FIELDS = namesOf<keyof DetailFields>(() => true)
export const ROW_FIELDS = namesOf<keyof RowFields>(({ readIn }) => readIn !== 'details')
export const RESULT_FIELDS = namesOf<keyof ResultFields>(({ readIn }) => readIn === 'results')
export const PROMPT_FIELDS = namesOf(({ about }) => about === 'prompt')
export const RESPONSE_FIELDS = namesOf(({ about }) => about === 'response')
export const INTEGER_FIELDS = namesOf(({ type }) => type === 'integer')

function namesOf<Name extends SampleFieldName = SampleFieldName>(
  of: (field: SampleField) => boolean,
): readonly Name[] {
  return Object.entries(SAMPLE_FIELDS).flatMap(([name, field]) => (of(field) ? [name as Name] : []))
}

/** The definition of a field. */
export function fieldOf(name: SampleFieldName): SampleField {
  return SAMPLE_FIELDS[name]
}

type Shape<About extends SampleField['about']> = {
  [Name in keyof Fields as Fields[Name]['about'] extends About
    ? Name
    : never]: Fields[Name]['schema']
}
const shapeOf = <About extends SampleField['about']>(names: readonly SampleFieldName[]) =>
  Object.fromEntries(names.map((name) => [name, SAMPLE_FIELDS[name].schema])) as Shape<About>
/** The input schemas of the fields. */
export const PROMPT_SHAPE = shapeOf<'prompt'>(PROMPT_FIELDS)
export const RESPONSE_SHAPE = shapeOf<'response'>(RESPONSE_FIELDS)

/** The name of a field in SQL and Python, such as `response_length` for `responseLength`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/**
 * Copies fields of `source` to `target`; missing fields become null. Changes `target` in place, because a second object
 * per sample is expensive.
 */
export function withFields<Target extends object, Source, Name extends keyof Source>(
  target: Target,
  source: Source,
  names: readonly Name[],
) {
  const fields = target as Record<Name, unknown>
  for (const name of names) fields[name] = source[name] ?? null
  return target as Target & {
    [Of in Name]-?: undefined extends Source[Of]
      ? Exclude<Source[Of], undefined> | null
      : Source[Of]
  }
}
