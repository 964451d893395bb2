import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PrismaPg } from '@prisma/adapter-pg'
import {
  bindMigrationAwareSqlAdapterFactory,
  ColumnTypeEnum,
  type SqlDriverAdapter,
} from '@prisma/driver-adapter-utils'
import type { SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg'
import pg from 'pg'

/**
 * Returns the SQL that turns a database's tables into those of a Prisma schema; empty when they agree. It uses Prisma's
 * engine as WebAssembly, because `prisma migrate diff` needs a downloaded engine. Without that engine, the command
 * prints nothing and exits with 0.
 * @param ignoreTables tables that the schema cannot express, as `schema.table`
 */
export async function sqlFromDatabaseToSchema(
  url: string,
  schema: string,
  ignoreTables: string[],
): Promise<string> {
  const { SchemaEngine } = await engineModule()
  const pool = new CharPool({ connectionString: url, max: 2 })
  const factory = bindMigrationAwareSqlAdapterFactory({
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    connect: () => adapt(pool),
    connectToShadowDb: () => Promise.reject(new Error('no shadow database is needed here')),
  })
  const options = { datamodels: [['schema.prisma', schema] as [string, string]] }
  const engine = await SchemaEngine.new(options, () => {}, factory)
  try {
    const files = [{ path: 'schema.prisma', content: schema }]
    const { stdout } = await engine.diff({
      from: { tag: 'schemaDatasource', files, configDir: '.' },
      to: { tag: 'schemaDatamodel', files },
      script: true,
      exitCode: null,
      filters: { externalTables: ignoreTables, externalEnums: [] },
    })
    return (stdout ?? '').replace(EMPTY, '').trim()
  } finally {
    engine.free()
    await pool.end()
  }
}

const EMPTY = /^-- This is an empty migration\.$/m

interface EngineModule {
  SchemaEngine: { new: typeof SchemaEngine.new }
  __wbg_set_wasm(exports: WebAssembly.Exports): void
}

let loaded: Promise<EngineModule> | undefined

/** Loads the engine once, because a second instance in the same module would never answer. */
function engineModule(): Promise<EngineModule> {
  loaded ??= instantiate()
  return loaded
}

async function instantiate(): Promise<EngineModule> {
  // The engine stores the text of a panic here. Without the registry, a panic appears as a TypeError.
  const registry = {
    text: '',
    set_message(text: string) {
      registry.text = text
    },
  }
  Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: registry })
  const module = (await import('@prisma/schema-engine-wasm/schema_engine_bg')) as unknown
  const file = createRequire(import.meta.url)
    .resolve('@prisma/schema-engine-wasm')
    .replace(/schema_engine\.js$/, 'schema_engine_bg.wasm')
  const { instance } = await WebAssembly.instantiate(readFileSync(file), {
    './schema_engine_bg.js': module as WebAssembly.ModuleImports,
  })
  const engine = module as EngineModule
  engine.__wbg_set_wasm(instance.exports)
  const start = instance.exports.__wbindgen_start as () => void
  start()
  return engine
}

/** The type "char" of catalog columns. adapter-pg supports arrays of this type, but not the type itself. */
const CHAR_OID = 18
const CHAR_ARRAY_OID = 1002

/**
 * Connects through adapter-pg, with support for "char". The engine reads no catalog column that is an array of "char",
 * so a result column of this type stands for a single "char".
 */
async function adapt(pool: pg.Pool): Promise<SqlDriverAdapter> {
  const adapter = await new PrismaPg(pool).connect()
  const { queryRaw } = adapter
  adapter.queryRaw = async (query) => {
    const result = await queryRaw.call(adapter, query)
    const { CharacterArray, Character } = ColumnTypeEnum
    result.columnTypes = result.columnTypes.map((t) => (t === CharacterArray ? Character : t))
    return result
  }
  return adapter
}

class CharPool extends pg.Pool {
  // pg declares one overload per calling convention; the arguments are passed on unchanged.
  override query: pg.Pool['query'] = async (...args: unknown[]) => {
    const result = await (super.query as (...args: unknown[]) => Promise<pg.QueryResult>)(...args)
    for (const field of result.fields ?? []) {
      if (field.dataTypeID === CHAR_OID) field.dataTypeID = CHAR_ARRAY_OID
    }
    return result as never
  }
}
