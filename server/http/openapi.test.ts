import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, it } from 'vitest'
import type { z } from 'zod'
import { appRouter } from '../api/root.ts'

// The committed document. `npm run check` fails if scripts/api-doc.ts would write a different one.
const document = JSON.parse(readFileSync(new URL('openapi.json', import.meta.url), 'utf8'))
const procedures = Object.entries(
  appRouter._def.procedures as unknown as Record<string, { _def: { inputs: z.ZodType[] } }>,
)

function inputOf(path: string): { example?: unknown } | undefined {
  const [operation] = Object.values<{
    parameters?: { content: Record<string, object> }[]
    requestBody?: { content: Record<string, object> }
  }>(document.paths[`/api/trpc/${path}`])
  return (operation?.requestBody ?? operation?.parameters?.[0])?.content['application/json']
}

it('is a valid OpenAPI 3.1 document', async () => {
  expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true })
})

it('has every procedure', () => {
  expect(Object.keys(document.paths)).toEqual(procedures.map(([path]) => `/api/trpc/${path}`))
})

it('has a valid example of every input', () => {
  for (const [path, { _def }] of procedures) {
    const input = inputOf(path)
    const example = input === undefined ? undefined : input.example
    if (input !== undefined) expect(example, path).toBeDefined()
    const parsed = _def.inputs[0]?.safeParse(example)
    expect(parsed?.error?.message, path).toBeUndefined()
  }
})
