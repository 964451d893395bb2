import type { Outcome } from './checks.ts'

export type Planned = Pick<Outcome, 'release' | 'check'>

/** Formats the outcomes as a table of checks by release, with the details of each failed check below. */
export function markdownOf(planned: Planned[], outcomes: Outcome[], date: string): string {
  const releases = [...new Set(planned.map(({ release }) => release))]
  const checks = [...new Set(planned.map(({ check }) => check))]
  const cell = (check: string, release: string) => {
    const isSame = (one: Planned) => one.check === check && one.release === release
    const outcome = outcomes.find(isSame)
    if (outcome === undefined) return planned.some(isSame) ? 'not run' : ''
    return outcome.ok ? 'passes' : '**fails**'
  }
  const missing = planned.length - outcomes.length
  const row = (cells: string[]) => `| ${cells.join(' | ')} |`
  const failed = outcomes.filter(({ ok }) => !ok)
  const passed = outcomes.length - failed.length
  return [
    '# Tested engines',
    '',
    'These checks ran against real vLLM and llama.cpp servers with tiny models of random weights on a CPU, and against',
    '[`rewardops serve-reward`](python.md#reward-functions-in-python). They do not measure speed.',
    '[Engine tests](../testkit/engines/README.md) describes how to run them.',
    '',
    `Run on ${date}: ${passed} checks pass, ${failed.length} ${failed.length === 1 ? 'fails' : 'fail'}${missing > 0 ? `, ${missing} were not run` : ''}.`,
    '',
    'The kind of model is in parentheses. An empty cell means that the check does not apply to the release. `scores`',
    'compares the scores with the logits that the library transformers computes.',
    '',
    row(['check', ...releases]),
    row(['---', ...releases.map(() => '---')]),
    ...checks.map((check) => row([check, ...releases.map((release) => cell(check, release))])),
    ...failures(failed),
    '',
  ].join('\n')
}

function failures(outcomes: Outcome[]): string[] {
  if (outcomes.length === 0) return []
  const lines = outcomes.map(
    ({ release, check, detail }) => `- ${release}, ${check}: ${detail.replaceAll('|', '\\|')}`,
  )
  return ['', '## Failures', '', ...lines]
}
