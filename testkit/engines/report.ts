import type { Outcome } from './checks.ts'

export type Planned = Pick<Outcome, 'release' | 'check'>

/** Formats the outcomes as a table of passed checks by model and release, followed by the failed checks. */
export function markdownOf(planned: Planned[], outcomes: Outcome[], date: string): string {
  const missing = planned.length - outcomes.length
  const row = (cells: string[]) => `| ${cells.join(' | ')} |`
  const failed = outcomes.filter(({ ok }) => !ok)
  const passed = outcomes.filter(({ ok }) => ok)
  return [
    '# Tested engines',
    '',
    'These checks ran on a CPU against real vLLM and llama.cpp servers with tiny randomly initialized models, and against',
    '[`rewardops serve-reward`](python.md#reward-functions-in-python). [Engine tests](../testkit/engines/README.md) describes',
    'how to run them. The check `detection` tests whether registration finds the engine and the',
    '[route](servers.md#route-and-label). The check `scores` compares the scores with logits from `transformers`.',
    '',
    `Run on ${date}: ${passed.length} checks pass, ${failed.length} ${failed.length === 1 ? 'fails' : 'fail'}${missing > 0 ? `, ${missing} were not run` : ''}.`,
    '',
    row(['model', 'releases', 'passed checks']),
    row(['---', '---', '---']),
    ...rowsOf(passed).map(({ model, releases, checks }) =>
      row([model, releases.join(', '), checks]),
    ),
    ...failures(failed),
    '',
  ].join('\n')
}

/** Rows by model. Releases that pass the same checks share a row. */
function rowsOf(passed: Outcome[]): { model: string; releases: string[]; checks: string }[] {
  const byModel = new Map<string, Map<string, string[]>>()
  for (const { release, check } of passed) {
    // stages.ts appends the model to the names of checks. A check of reward functions has no model.
    const [, name = check, model = 'Python function'] = /^(.*) \((.+)\)$/.exec(check) ?? []
    const byRelease = byModel.get(model) ?? new Map<string, string[]>()
    byModel.set(model, byRelease.set(release, [...(byRelease.get(release) ?? []), name]))
  }
  return [...byModel].flatMap(([model, byRelease]) => {
    const byChecks = new Map<string, string[]>()
    for (const [release, names] of byRelease) {
      const checks = names.join('; ')
      byChecks.set(checks, [...(byChecks.get(checks) ?? []), release])
    }
    return [...byChecks].map(([checks, releases]) => ({ model, releases, checks }))
  })
}

function failures(outcomes: Outcome[]): string[] {
  if (outcomes.length === 0) return []
  const lines = outcomes.map(
    ({ release, check, detail }) => `- ${release}, ${check}: ${detail.replaceAll('|', '\\|')}`,
  )
  return ['', '## Failures', '', ...lines]
}
