import { defineConfig } from 'prisma/config'

// Prisma looks for its schema engine before every command, and that is a download of its own. `generate`,
// `validate` and `format` never run it: any program that exists will do. Set it to a real engine for
// `prisma migrate`.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ||= process.execPath

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  datasource: { url: process.env.DATABASE_URL ?? '' },
})
