import { defineConfig } from 'prisma/config'

// Every command of Prisma checks that its schema engine, a separate download, exists. `generate`, `validate` and
// `format` never run the engine, so any existing program is accepted. `prisma migrate` needs the real engine.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ||= process.execPath

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  datasource: { url: process.env.DATABASE_URL ?? '' },
})
