import fc from 'fast-check'

/** The part of JSON Schema that zod writes for the inputs of procedures. */
export interface InputSchema {
  $ref?: string
  $defs?: Record<string, InputSchema>
  type?: string
  properties?: Record<string, InputSchema>
  required?: string[]
  additionalProperties?: boolean | InputSchema
  items?: InputSchema
  prefixItems?: InputSchema[]
  anyOf?: InputSchema[]
  oneOf?: InputSchema[]
  allOf?: InputSchema[]
  enum?: unknown[]
  const?: unknown
  pattern?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
}

/** Values that exist in the service, by field name or by the pattern that a text must match. */
export interface Known {
  fields: Readonly<Record<string, readonly unknown[]>>
  patterns: Readonly<Record<string, readonly string[]>>
}

/** The longest list and text of a valid input; longer ones are among the hostile values. */
const MAX_ITEMS = 4
const MAX_CHARS = 40

const anyJson = fc.jsonValue({ maxDepth: 2 })

/**
 * Values that a schema accepts. Refinements are ignored, because JSON Schema does not have them. A field or pattern in
 * `known` mostly gets one of the values listed there, so that calls reach stored data.
 */
export function inputsOf(root: InputSchema, known: Known): fc.Arbitrary<unknown> {
  const of = (schema: InputSchema, field: string): fc.Arbitrary<unknown> => {
    const plain = shapeOf(schema, field)
    const found = known.fields[field]
    return found === undefined || found.length === 0
      ? plain
      : fc.oneof(
          { weight: 5, arbitrary: fc.constantFrom(...found) },
          { weight: 1, arbitrary: plain },
        )
  }
  const shapeOf = (schema: InputSchema, field: string): fc.Arbitrary<unknown> => {
    // Only the schema of z.json() refers to itself.
    if (schema.$ref !== undefined) {
      const target = root.$defs?.[schema.$ref.replace('#/$defs/', '')]
      return target === undefined || isRecursive(target) ? anyJson : of(target, field)
    }
    if (schema.const !== undefined) return fc.constant(schema.const)
    if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
    const forms = schema.anyOf ?? schema.oneOf
    if (forms !== undefined) return fc.oneof(...forms.map((form) => of(form, field)))
    if (schema.allOf !== undefined) return of(Object.assign({}, ...schema.allOf), field)
    switch (schema.type) {
      case 'string':
        return textOf(schema)
      case 'integer':
        return fc.integer(numbersOf(schema, -0x8000_0000, 0x7fff_ffff))
      case 'number':
        return fc.double({ ...numbersOf(schema, -1e9, 1e9), noNaN: true })
      case 'boolean':
        return fc.boolean()
      case 'null':
        return fc.constant(null)
      case 'array':
        return arrayOf(schema, field)
      case 'object':
        return objectOf(schema)
      default:
        return anyJson
    }
  }
  const textOf = ({ pattern, minLength = 0, maxLength = MAX_CHARS }: InputSchema) => {
    const found = pattern === undefined ? undefined : known.patterns[pattern]
    if (found !== undefined) return fc.constantFrom(...found)
    if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
    const size = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, MAX_CHARS)) }
    return fc.oneof(fc.string(size), fc.string({ ...size, unit: 'grapheme' }))
  }
  const arrayOf = ({ items, prefixItems, minItems = 0, maxItems }: InputSchema, field: string) => {
    if (prefixItems !== undefined) return fc.tuple(...prefixItems.map((item) => of(item, field)))
    const most = Math.max(minItems, Math.min(maxItems ?? MAX_ITEMS, MAX_ITEMS))
    return fc.array(of(items ?? {}, field), { minLength: minItems, maxLength: most })
  }
  const objectOf = ({ properties = {}, required = [], additionalProperties }: InputSchema) => {
    const fields = Object.fromEntries(
      Object.entries(properties).map(([name, schema]) => [name, of(schema, name)]),
    )
    const named = fc.record(fields, { requiredKeys: required, noNullPrototype: true } as never)
    if (typeof additionalProperties !== 'object') return named
    const more = fc.dictionary(fc.string({ maxLength: 8 }), of(additionalProperties, ''), {
      maxKeys: 3,
      noNullPrototype: true,
    })
    return fc.tuple(more, named).map(([others, fields]) => ({ ...others, ...(fields as object) }))
  }
  return of(root, '')
}

function isRecursive(schema: InputSchema): boolean {
  return JSON.stringify(schema).includes('"$ref"')
}

function numbersOf({ minimum, maximum }: InputSchema, low: number, high: number) {
  const min = Math.max(minimum ?? low, low)
  return { min, max: Math.max(min, Math.min(maximum ?? high, high)) }
}
