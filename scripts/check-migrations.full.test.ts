import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { missingSql } from './check-migrations.ts'

let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'drift-'))
  mkdirSync(join(dir, 'migrations/20260101_a'), { recursive: true })
})

afterEach(() => rmSync(dir, { recursive: true, force: true }))

function check(schema: string, sql: string): Promise<string> {
  const file = join(dir, 'schema.prisma')
  writeFileSync(file, `datasource db {\n  provider = "postgresql"\n}\n${schema}`)
  writeFileSync(join(dir, 'migrations/20260101_a/migration.sql'), sql)
  return missingSql(file, join(dir, 'migrations'))
}

const RUN = `model Run {
  id   Int    @id @default(autoincrement())
  name String @unique
  @@map("run")
}`
const RUN_SQL = `CREATE TABLE "run" ("id" SERIAL NOT NULL, "name" TEXT NOT NULL, CONSTRAINT "run_pkey" PRIMARY KEY ("id"));
CREATE UNIQUE INDEX "run_name_key" ON "run"("name");`

test('features that only SQL has are ignored: partitions, functions, triggers, checks, fillfactor', async () => {
  const text = `model SampleText {
    bucket DateTime @db.Date
    id     Int
    body   String
    search Unsupported("tsvector")? @default(dbgenerated("to_tsvector('simple'::regconfig, body)"))
    span   Unsupported("int4range")?
    @@id([bucket, id])
    @@index([search], type: Gin, map: "sample_text_search")
    @@map("sample_text")
  }`
  const sql = `CREATE TABLE "sample_text" (
    "bucket" DATE NOT NULL, "id" INTEGER NOT NULL, "body" TEXT NOT NULL,
    "search" tsvector GENERATED ALWAYS AS (to_tsvector('simple', body)) STORED, "span" int4range,
    CONSTRAINT "sample_text_pkey" PRIMARY KEY ("bucket", "id")
  ) PARTITION BY RANGE ("bucket");
  CREATE TABLE sample_text_default PARTITION OF sample_text DEFAULT;
  CREATE TABLE sample_text_1 PARTITION OF sample_text FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
  CREATE INDEX sample_text_search ON sample_text USING gin (search);
  ALTER TABLE run SET (fillfactor = 60);
  ALTER TABLE run ADD CONSTRAINT named CHECK (name <> ''); -- with a semicolon; in the comment
  CREATE INDEX run_lower ON run (lower(name));
  CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
  CREATE TRIGGER same BEFORE UPDATE ON run FOR EACH ROW EXECUTE FUNCTION same();`
  expect(await check(`${RUN}\n${text}`, `${RUN_SQL}\n${sql}`)).toBe('')
})

test('a column missing from the migrations is printed as SQL', async () => {
  const schema = RUN.replace('@unique', '@unique\n  seed Int?')
  expect(await check(schema, RUN_SQL)).toMatch(/ALTER TABLE "run" ADD COLUMN +"seed" INTEGER;/)
})

test('a table missing from the schema is printed as a drop', async () => {
  expect(await check(RUN, `${RUN_SQL} CREATE TABLE forgotten (id int primary key);`)).toMatch(
    /DROP TABLE "forgotten";/,
  )
})
