import { readFileSync } from 'node:fs'
import { describeIssues } from '../../server/contract/describe-issues.ts'
import { RewardSpec } from '../../server/contract/trainer.ts'
import { usageError } from './exit-codes.ts'

export const REWARD_OPTION = {
  type: 'string',
  value: 'JSON',
  help: 'reward as in batches.submit, or @FILE (default: the rule of each data source)',
} as const

/**
 * Parses a reward given as JSON, or as `@` and the path of a JSON file. Defaults are not filled in.
 * @throws CliError naming the problem
 */
export function readReward(given: string | undefined): Partial<RewardSpec> {
  if (given === undefined) return {}
  const value = readJson('reward', given, '{"model":"my-rm"}')
  const parsed = RewardSpec.safeParse(value)
  if (!parsed.success) throw usageError(`--reward: ${describeIssues(parsed.error)}`)
  return value as Partial<RewardSpec>
}

/** Parses `given`: JSON, or `@` and the path of a JSON file. @throws CliError naming the problem */
export function readJson(option: string, given: string, example = '{"lr":1e-6}'): unknown {
  let text = given
  if (given.startsWith('@')) {
    try {
      text = readFileSync(given.slice(1), 'utf8')
    } catch (error) {
      throw usageError(
        `--${option} ${given}: cannot be read (${(error as NodeJS.ErrnoException).code})`,
      )
    }
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw usageError(
      `--${option} is not valid JSON: ${(error as Error).message}. For example: --${option} '${example}'`,
    )
  }
}

/** Parses a whole number. Returns undefined if the option is not given. @throws CliError */
export function wholeNumber(
  name: string,
  given: string | undefined,
  min = 0,
  max = 2_147_483_647,
): number | undefined {
  if (given === undefined) return undefined
  const value = Number(given)
  if (!/^\d+$/.test(given) || value < min || value > max) {
    throw usageError(`--${name} ${given}: expected a whole number from ${min} to ${max}`)
  }
  return value
}

export function splitOption(given: string | undefined): 'train' | 'val' | undefined {
  if (given === undefined || given === 'train' || given === 'val') return given
  throw usageError(`--split ${given}: expected train or val`)
}
