import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { PROCEDURES } from '../../testkit/service/procedures.ts'
import type { KeyScope } from '../admin/key-holder.ts'
import { isRewardOpsError } from '../errors.ts'
import { type CallRules, rulesOf } from './call-rules.ts'
import { checkAccess } from './scopes.ts'
import { SURFACES } from './surfaces.ts'

function permitted(scope: KeyScope): string[] {
  const holder = { name: 'limited', scope }
  const calls: Record<string, CallRules> = {
    ...SURFACES,
    ...Object.fromEntries(
      PROCEDURES.map(([path, { _def }]) => [path, rulesOf(_def.type, _def.meta)]),
    ),
  }
  return Object.entries(calls).flatMap(([what, rules]) => {
    try {
      checkAccess(holder, what, rules)
      return [what]
    } catch (error) {
      expect(isRewardOpsError(error) && error.reason).toBe('forbidden_scope')
      return []
    }
  })
}

describe('the scope of a key', () => {
  it('with the access `submit`, permits only submits and their results', () => {
    expect(permitted({ access: 'submit', runPrefix: null }).toSorted()).toEqual([
      'batches.append',
      'batches.cancel',
      'batches.close',
      'batches.get',
      'batches.next',
      'batches.results',
      'batches.submit',
      'batches.wait',
      'dialects',
      'openapi',
      'runs.update',
      'samples.score',
    ])
  })

  it('permits every read, and no change, with the access `read`', () => {
    const mutations = PROCEDURES.filter(([, { _def }]) => _def.type === 'mutation').map(
      ([path]) => path,
    )
    const read = permitted({ access: 'read', runPrefix: null })
    expect(read.filter((path) => mutations.includes(path))).toEqual(['rewards.importConfig'])
    const queries = PROCEDURES.filter(([, { _def }]) => _def.type !== 'mutation').map(
      ([path]) => path,
    )
    expect(read).toEqual(expect.arrayContaining([...queries, 'export', 'images', 'metrics']))
    expect(read).not.toContain('router')
    expect(read).not.toContain('dialects')
  })

  it('with a run prefix, permits only listed calls, and lists every input field that names a run', () => {
    const paths = permitted({ access: 'full', runPrefix: 'a/' })
    expect(paths).toEqual(expect.arrayContaining(['batches.submit', 'export', 'runs.get']))
    for (const path of ['live.events', 'overview.get', 'runs.table', 'metrics', 'audit.list']) {
      expect(paths).not.toContain(path)
    }
    for (const [path, { _def }] of PROCEDURES) {
      const fields = _def.meta?.runFields
      if (fields === undefined) continue
      const schema = z.toJSONSchema(_def.inputs.at(-1) ?? z.object({}), {
        io: 'input',
        unrepresentable: 'any',
      })
      const given = Object.keys(schema.properties ?? {})
      const named = [...(fields?.runs ?? []), ...(fields?.batches ?? [])]
      expect(given, path).toEqual(expect.arrayContaining(named))
      const naming = given.filter((field) => NAMES_RUNS.test(field))
      expect(named, `${path} has input fields that may name runs`).toEqual(
        expect.arrayContaining(naming),
      )
    }
  })
})

const NAMES_RUNS = /^(runs?|batch(Id|es)?|ids?|name|first|second)$/
