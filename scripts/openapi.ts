import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  API,
  type Checker,
  SymbolFlags,
  type Type,
  TypeFlags,
  type Symbol as TypeSymbol,
} from 'typescript/unstable/sync'
import { z } from 'zod'
import { type CallRules, rulesOf } from '../server/api/call-rules.ts'
import type { ProcedureMeta } from '../server/api/procedure-meta.ts'
import { appRouter } from '../server/api/root.ts'
import { ERROR_REASONS, type ErrorReason } from '../server/contract/error-reasons.ts'

// The OpenAPI document of the tRPC router. Inputs come from their zod schemas, outputs from their TypeScript types, and
// descriptions, errors (@throws) and examples (@example) from doc comments.

const ROOT = join(import.meta.dirname, '..')
const CONFIG = join(ROOT, 'tsconfig.api.json')
const REF = '#/components/schemas/'
const EVENT_STREAM = 'text/event-stream'

/** The part of JSON Schema (draft 2020-12) that the document uses. */
export interface Schema {
  $ref?: string
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  items?: Schema
  prefixItems?: Schema[]
  allOf?: Schema[]
  not?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  pattern?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  minItems?: number
  maxItems?: number
}

export interface Procedure {
  path: string
  kind: 'query' | 'mutation' | 'subscription'
  /** The procedure's access rules, or null if no key is needed. */
  rules: CallRules | null
  description: string
  /** Null if the procedure has no input. */
  input: Schema | null
  /** The output; for a subscription, one event. */
  output: Schema
  errors: ErrorReason[]
  example: unknown
}

export interface Reference {
  namespaces: Map<string, { description: string; guide: string | null }>
  procedures: Procedure[]
  schemas: Record<string, Schema>
}

interface RouterProcedure {
  _def: { type: Procedure['kind']; inputs: z.ZodType[]; meta?: ProcedureMeta }
}

/** Reads the router. @throws Error if a procedure has no description, or an error reason is unknown */
export async function readReference(): Promise<Reference> {
  const routerProcedures = Object.entries(
    appRouter._def.procedures as unknown as Record<string, RouterProcedure>,
  )
  const { inputs, schemas } = await inputSchemas(routerProcedures)
  const { api, checker, router, contract } = openTypes()
  try {
    const outputs = new OutputSchemas(checker, schemas, contract)
    const inputDocs = new InputDescriptions(checker, schemas)
    const namespaces: Reference['namespaces'] = new Map()
    const symbols = new Map<string, TypeSymbol>()
    const records = propertyType(checker, checker.getDeclaredTypeOfSymbol(router), '_def', 'record')
    for (const namespace of checker.getPropertiesOfType(records)) {
      // TypeScript reads the path as a link and puts a space into it.
      const [guide = null] = tags(namespace, checker, 'see').map((path) => path.replace(' ', ''))
      namespaces.set(namespace.name, { description: doc(namespace, checker), guide })
      for (const one of checker.getPropertiesOfType(typeOf(checker, namespace)))
        symbols.set(`${namespace.name}.${one.name}`, one)
    }
    const procedures = routerProcedures.map(([path, { _def }]): Procedure => {
      const symbol = symbols.get(path)
      if (symbol === undefined)
        throw new Error(`${path}: the type of the router has no such procedure`)
      const description = doc(symbol, checker)
      if (description === '') throw new Error(`${path}: the procedure has no doc comment`)
      const io = propertyType(checker, typeOf(checker, symbol), '_def', '$types')
      const input = inputs.get(path) ?? null
      if (input !== null) inputDocs.fill(input, propertyType(checker, io, 'input'))
      let output = propertyType(checker, io, 'output')
      if (_def.type === 'subscription')
        output = checker.getTypeArguments(output as never)[0] as Type
      const [example] = tags(symbol, checker, 'example')
      return {
        path,
        kind: _def.type,
        rules: _def.meta?.isOpen ? null : rulesOf(_def.type, _def.meta),
        description,
        input,
        output: outputs.of(output),
        errors: tags(symbol, checker, 'throws').flatMap((text) => reasonsIn(text, path)),
        example: example === undefined ? undefined : JSON.parse(example.replace(/\s+/g, ' ')),
      }
    })
    for (const symbol of contract) {
      const schema = schemas[symbol.name]
      if (schema !== undefined && schema.description === undefined)
        describe(schema, symbol, checker)
    }
    const errorData = contract.find(({ name }) => name === 'ErrorData') as TypeSymbol
    outputs.of(checker.getDeclaredTypeOfSymbol(errorData))
    return { namespaces, procedures, schemas: reachable(procedures, schemas) }
  } finally {
    api.close()
  }
}

export function openApi({ namespaces, procedures, schemas }: Reference): object {
  const { version, description } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const paths = Object.fromEntries(
    procedures.map((procedure) => [
      `/api/trpc/${procedure.path}`,
      { [procedure.kind === 'mutation' ? 'post' : 'get']: operation(procedure) },
    ]),
  )
  return {
    openapi: '3.1.1',
    info: {
      title: 'rewardops',
      version,
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'http://127.0.0.1:3000' }],
    tags: [...namespaces].map(([name, { description }]) => ({ name, description })),
    paths,
    components: {
      schemas: { ...schemas, Error: ERROR_SCHEMA },
      responses: {
        Error: { description: 'The call was refused.', content: json({ $ref: `${REF}Error` }) },
      },
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } },
    },
  }
}

const ERROR_SCHEMA: Schema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['message', 'code', 'data'],
      properties: {
        message: { type: 'string' },
        code: { type: 'integer', description: 'The JSON-RPC code of tRPC.' },
        data: { $ref: `${REF}ErrorData` },
      },
    },
  },
}

const json = (schema: object, example?: unknown) => ({
  'application/json': { schema, ...(example === undefined ? {} : { example }) },
})

function operation({ path, kind, rules, description, input, output, errors, example }: Procedure) {
  const isRequired = input !== null && input.default === undefined
  const [sentence = ''] = description.split(/(?<=\.) /)
  const given =
    input === null
      ? {}
      : kind === 'mutation'
        ? { requestBody: { required: isRequired, content: json(input, example) } }
        : {
            parameters: [
              { name: 'input', in: 'query', required: isRequired, content: json(input, example) },
            ],
          }
  const result = {
    type: 'object',
    required: ['result'],
    properties: {
      result: { type: 'object', required: ['data'], properties: { data: output } },
    },
  }
  const statuses = Map.groupBy(errors, (reason) => ERROR_REASONS[reason].httpStatus)
  return {
    operationId: path,
    tags: [path.split('.', 1)[0]],
    summary: sentence,
    ...(description === sentence ? {} : { description }),
    security: rules === null ? [] : [{ apiKey: [rules.role] }],
    ...given,
    responses: {
      200:
        kind === 'subscription'
          ? { description: 'A stream of events.', content: { [EVENT_STREAM]: { schema: output } } }
          : { description: 'The result.', content: json(result) },
      ...Object.fromEntries(
        [...statuses].map(([status, reasons]) => [
          status,
          { description: reasons.join(', '), content: json({ $ref: `${REF}Error` }) },
        ]),
      ),
      default: { $ref: '#/components/responses/Error' },
    },
  }
}

/** The inputs as JSON Schemas. Schemas that server/contract exports become components under their names. */
async function inputSchemas(procedures: [string, RouterProcedure][]) {
  const registry = z.registry<{ id: string }>()
  const exported: [string, unknown][] = []
  for (const file of contractFiles())
    exported.push(...Object.entries(await import(join(ROOT, file))))
  // Of several names for one schema, the first that does not end with "Input" is used.
  const isInput = ([name]: [string, unknown]) => Number(name.endsWith('Input'))
  for (const [id, value] of exported.toSorted((a, b) => isInput(a) - isInput(b)))
    if (value instanceof z.ZodType && !registry.has(value)) registry.add(value, { id })
  const ids = new Map<string, string>()
  for (const [path, { _def }] of procedures) {
    const [schema] = _def.inputs
    if (schema === undefined) continue
    if (!registry.has(schema)) registry.add(schema, { id: path })
    ids.set(path, registry.get(schema)?.id as string)
  }
  const { schemas: converted } = z.toJSONSchema(registry, {
    io: 'input',
    unrepresentable: 'any',
    uri: (id) => `${REF}${id}`,
    override({ zodSchema, jsonSchema }) {
      // The schema of z.json() refers to itself. It is replaced by an empty schema, which also means any JSON.
      if (zodSchema._zod.def.type === 'lazy')
        for (const key in jsonSchema) delete jsonSchema[key as never]
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
    },
  })
  const schemas: Record<string, Schema> = {}
  const inline: Record<string, Schema> = {}
  for (const [id, { $schema, $id, ...schema }] of Object.entries(converted)) {
    if (id === '__shared') continue
    ;(id.includes('.') ? inline : schemas)[id] = tidied(schema)
  }
  const inputs = new Map<string, Schema>()
  for (const [path, id] of ids) {
    const schema = inline[id] ?? { $ref: `${REF}${id}` }
    const takesNothing =
      Object.keys(schema.properties ?? {}).length === 0 && schema.type === 'object'
    if (!takesNothing) inputs.set(path, schema)
  }
  return { inputs, schemas }
}

function tidied(schema: object): Schema {
  const plain = JSON.parse(JSON.stringify(schema), (key, value) => {
    if (key === 'propertyNames') return undefined
    // The only unnamed schema that others share is z.json(), which means any JSON.
    if (typeof value?.$ref === 'string' && value.$ref.includes('__shared')) return {}
    const inner = value?.anyOf?.find((one: Schema) => Object.keys(one).join() === 'anyOf')
    if (!inner) return value
    const anyOf = value.anyOf.flatMap((one: Schema) => (one === inner ? inner.anyOf : [one]))
    return { ...value, anyOf }
  })
  return plain as Schema
}

function reachable(procedures: readonly Procedure[], schemas: Record<string, Schema>) {
  const names = new Set<string>()
  const visit = (value: unknown): void => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(
      /"#\/components\/schemas\/([^"]+)"/g,
    )) {
      if (names.has(name)) continue
      names.add(name)
      visit(schemas[name])
    }
  }
  visit(procedures.map(({ input, output }) => [input, output]))
  visit({ $ref: `${REF}ErrorData` })
  return Object.fromEntries([...names].toSorted().map((name) => [name, schemas[name] as Schema]))
}

/** Opens a type checker for the router and the files that it imports, without the rest of the project. */
function openTypes() {
  const config = { extends: './tsconfig.json', files: ['server/api/root.ts'], include: [] }
  const api = new API({
    cwd: ROOT,
    fs: {
      readFile: (path) => (path === CONFIG ? JSON.stringify(config) : undefined),
      fileExists: (path) => (path === CONFIG ? true : undefined),
    },
  })
  const [project] = api.updateSnapshot({ openProjects: [CONFIG] }).getProjects()
  if (project === undefined) throw new Error('TypeScript did not open the project')
  const { checker, program } = project
  const exportsOf = (path: string) => {
    const file = program.getSourceFile(join(ROOT, path))
    const symbol = file && checker.getSymbolAtLocation(file)
    return symbol ? checker.getExportsOfModule(symbol) : []
  }
  const router = exportsOf('server/api/root.ts').find(({ name }) => name === 'AppRouter')
  if (router === undefined) throw new Error('server/api/root.ts exports no AppRouter')
  const contract = contractFiles().flatMap(exportsOf)
  return { api, checker, router, contract }
}

function contractFiles(): string[] {
  return globSync('server/contract/*.ts', { cwd: ROOT })
    .filter((file) => !file.endsWith('.test.ts'))
    .toSorted()
}

/** Converts types to JSON Schemas. Interfaces, and object types with a name in server/contract, become components. */
class OutputSchemas {
  private readonly checker: Checker
  private readonly schemas: Record<string, Schema>
  private readonly owners = new Map<string, number>()
  private readonly contract: ReadonlySet<string>

  constructor(checker: Checker, schemas: Record<string, Schema>, contract: TypeSymbol[]) {
    this.checker = checker
    this.schemas = schemas
    this.contract = new Set(contract.map(({ name }) => name))
  }

  /** Converts a type. @throws Error for a type that JSON cannot represent */
  of(type: Type): Schema {
    const { checker } = this
    if (type.flags & (TypeFlags.Any | TypeFlags.Unknown)) return {}
    // The type of z.json() refers to itself.
    if (type.getAliasSymbol()?.name === 'JSONType') return {}
    if (type.isUnionType()) {
      const types = type.getTypes() ?? []
      const alias = this.contractAlias(type)
      if (alias === undefined || !types.every((one) => one.isObjectType())) return this.union(types)
      return this.component(alias, () => this.union(types))
    }
    if (type.isLiteralType()) return { const: type.value }
    if (type.flags & TypeFlags.BooleanLiteral)
      return { const: checker.typeToString(type) === 'true' }
    if (type.flags & TypeFlags.StringLike) return { type: 'string' }
    if (type.flags & TypeFlags.NumberLike) return { type: 'number' }
    if (type.flags & TypeFlags.BooleanLike) return { type: 'boolean' }
    if (type.flags & TypeFlags.Null) return { type: 'null' }
    if (type.flags & TypeFlags.Never) return { not: {} }
    if (checker.isTupleType(type)) {
      return { type: 'array', prefixItems: this.typeArguments(type).map((one) => this.of(one)) }
    }
    if (checker.isArrayType(type)) {
      return { type: 'array', items: this.of(this.typeArguments(type)[0] as Type) }
    }
    if (type.isObjectType() || type.isIntersectionType()) return this.object(type)
    throw new Error(`JSON cannot represent the type ${checker.typeToString(type)}`)
  }

  private typeArguments(type: Type): readonly Type[] {
    return type.isTypeReference() ? this.checker.getTypeArguments(type) : []
  }

  private union(types: readonly Type[]): Schema {
    const kept = types.filter(({ flags }) => (flags & TypeFlags.Undefined) === 0)
    const literals = kept.map((type) => this.of(type)).filter((schema) => 'const' in schema)
    const others = kept.map((type) => this.of(type)).filter((schema) => !('const' in schema))
    const values = literals.map((schema) => schema.const)
    const schemas = [...others]
    if (values.includes(true) && values.includes(false)) {
      values.splice(0, values.length, ...values.filter((value) => typeof value !== 'boolean'))
      schemas.push({ type: 'boolean' })
    }
    if (values.length > 0)
      schemas.unshift(values.length === 1 ? { const: values[0] } : { enum: values })
    const isNull = ({ type }: Schema) => type === 'null'
    const [first, ...more] = schemas.filter((schema) => !isNull(schema))
    if (first === undefined) return { type: 'null' }
    if (more.length === 0 && schemas.some(isNull)) {
      if (typeof first.type === 'string') return { ...first, type: [first.type, 'null'] }
      if (first.enum !== undefined) return { enum: [...first.enum, null] }
    }
    return schemas.length === 1
      ? first
      : { anyOf: schemas.toSorted((a, b) => Number(isNull(a)) - Number(isNull(b))) }
  }

  private object(type: Type): Schema {
    const symbol = this.named(type)
    if (symbol === undefined || this.typeArguments(type).length > 0) return this.members(type)
    return this.component(symbol, () => this.members(type))
  }

  private component(symbol: TypeSymbol, write: () => Schema): Schema {
    const { checker, schemas, owners } = this
    const name = symbol.name.replace(/Dto$/, '')
    if (!owners.has(name)) {
      if (name in schemas) throw new Error(`an input and an output are both named ${name}`)
      owners.set(name, symbol.id)
      const schema: Schema = {}
      schemas[name] = schema
      Object.assign(schema, write())
      describe(schema, symbol, checker)
    }
    if (owners.get(name) !== symbol.id) throw new Error(`two outputs are named ${name}`)
    return { $ref: `${REF}${name}` }
  }

  /** The symbol that names an object type; undefined if the type is written out where it is used. */
  private named(type: Type): TypeSymbol | undefined {
    if (type.getAliasSymbol() !== undefined) return this.contractAlias(type)
    const symbol = type.getSymbol()
    return symbol && symbol.flags & SymbolFlags.Interface ? symbol : undefined
  }

  /**
   * The alias of an output type in `server/contract`; undefined if an input type is already a component with this name.
   * The two types cannot share a component, because defaults of optional fields are filled in only in outputs.
   */
  private contractAlias(type: Type): TypeSymbol | undefined {
    const alias = type.getAliasSymbol()
    if (alias === undefined || !this.contract.has(alias.name)) return undefined
    return alias.name in this.schemas && !this.owners.has(alias.name) ? undefined : alias
  }

  private members(type: Type): Schema {
    const { checker } = this
    const schema: Schema = { type: 'object' }
    const required: string[] = []
    for (const property of checker.getPropertiesOfType(type)) {
      const found = this.of(typeOf(checker, property))
      describe(found, property, checker)
      schema.properties = { ...schema.properties, [property.name]: found }
      if ((property.flags & SymbolFlags.Optional) === 0) required.push(property.name)
    }
    if (required.length > 0) schema.required = required
    const [index] = checker.getIndexInfosOfType(type)
    if (index !== undefined) schema.additionalProperties = this.of(index.valueType)
    return schema
  }
}

/** Copies the doc comments of input fields to their JSON Schemas, because zod creates these without descriptions. */
class InputDescriptions {
  private readonly checker: Checker
  private readonly schemas: Record<string, Schema>
  private readonly seen = new Set<Schema>()

  constructor(checker: Checker, schemas: Record<string, Schema>) {
    this.checker = checker
    this.schemas = schemas
  }

  fill(schema: Schema, type: Type): void {
    const component = schema.$ref && this.schemas[schema.$ref.slice(REF.length)]
    if (component) this.fill(component, type)
    for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])])
      this.fill(one, type)
    const constituents = type.isUnionType() ? (type.getTypes() ?? []) : [type]
    if (schema.items !== undefined) {
      const array = constituents.find((one) => this.checker.isArrayType(one))
      if (array) this.fill(schema.items, this.checker.getTypeArguments(array as never)[0] as Type)
    }
    if (schema.properties === undefined || this.seen.has(schema)) return
    this.seen.add(schema)
    const object = constituents.find((one) => this.has(one, schema.properties ?? {}))
    if (object === undefined) return
    for (const [name, found] of Object.entries(schema.properties)) {
      const property = this.checker.getPropertyOfType(object, name)
      if (property === undefined) continue
      describe(found, property, this.checker)
      this.fill(found, typeOf(this.checker, property))
    }
  }

  private has(type: Type, properties: Record<string, Schema>): boolean {
    return Object.entries(properties).every(([name, schema]) => {
      const property = this.checker.getPropertyOfType(type, name)
      if (property === undefined) return false
      if (schema.const === undefined) return true
      const literal = typeOf(this.checker, property)
      return !literal.isLiteralType() || literal.value === schema.const
    })
  }
}

function describe(schema: Schema, symbol: TypeSymbol, checker: Checker): void {
  const description = doc(symbol, checker)
  if (description !== '') schema.description = description
}

function doc(symbol: TypeSymbol, checker: Checker): string {
  return symbol.getDocumentationComment(checker).replace(/\s+/g, ' ').trim()
}

function tags(symbol: TypeSymbol, checker: Checker, tag: string): string[] {
  return symbol
    .getJsDocTags(checker)
    .filter(({ name }) => name === tag)
    .map(({ text }) => text ?? '')
}

function reasonsIn(text: string, path: string): ErrorReason[] {
  return (text.match(/\w+/g) ?? []).map((reason) => {
    if (!(reason in ERROR_REASONS)) throw new Error(`${path}: there is no error reason ${reason}`)
    return reason as ErrorReason
  })
}

function typeOf(checker: Checker, symbol: TypeSymbol | undefined): Type {
  const type = symbol && checker.getTypeOfSymbol(symbol)
  if (type === undefined) throw new Error(`TypeScript knows no type of ${symbol?.name}`)
  return type
}

function propertyType(checker: Checker, type: Type, ...names: string[]): Type {
  return names.reduce((at, name) => typeOf(checker, checker.getPropertyOfType(at, name)), type)
}
