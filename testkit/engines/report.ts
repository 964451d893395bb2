import type { Outcome } from './checks.ts'

export type Planned = Pick<Outcome, 'release' | 'check'>

const OBSERVATIONS = [
  'Each line names the release, the passed check (with the kind of model) and what was observed. Some need explanation:',
  '',
  '- `detection`: the engine and its version, the kind of the model, the [route](servers.md#route-and-label) to which the',
  '  service sends texts, and the max context.',
  '- `self-test`: the verdict (`raw` means raw logits) and the difference of the score from the logit that transformers',
  '  computes.',
  '- `scores`: the number of scores within the tolerance of the expected ones, and the largest difference. Expected are the',
  '  logits of transformers and, for the judge that says Yes with probability 0.75, 0.75.',
  '- `texts too long`: the samples beyond the max context, which must fail with `context_exceeded`, and the other samples,',
  '  which must be scored.',
  '- `load signals`: the most requests in flight that the engine reported and that the service counted during a batch. Both',
  '  must be 0 afterwards.',
  '- `engine killed in mid-batch`: the samples of the batch, and how many of them had a score when the engine was killed.',
  '',
  'All observations:',
].join('\n')

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
  const passed = outcomes.filter(({ ok }) => ok)
  return [
    '# Tested engines',
    '',
    'This page has the results of checks of the service against real vLLM and llama.cpp servers, which run tiny models of',
    'random weights on a CPU, and against [`rewardops serve-reward`](python.md#reward-functions-in-python). The checks do not',
    'measure speed. `npm run test:engines -- --write-docs` installs the servers, runs the checks and writes this page; see',
    '[testkit/engines](../testkit/engines/README.md).',
    '',
    `Run on ${date}: ${passed.length} checks pass, ${failed.length} ${failed.length === 1 ? 'fails' : 'fail'}${missing > 0 ? `, ${missing} were not run` : ''}.`,
    '',
    'A row is a check, with the kind of model in parentheses; a column is a release. A cell is empty if the check does not',
    'apply to the release.',
    '',
    row(['check', ...releases]),
    row(['---', ...releases.map(() => '---')]),
    ...checks.map((check) => row([check, ...releases.map((release) => cell(check, release))])),
    ...section(
      'Failures',
      'Each line names the release, the failed check (with the kind of model) and what the check found.',
      failed,
    ),
    ...section('Observations', OBSERVATIONS, passed),
    '',
  ].join('\n')
}

function section(title: string, intro: string, outcomes: Outcome[]): string[] {
  if (outcomes.length === 0) return []
  const lines = outcomes.map(
    ({ release, check, detail }) => `- ${release}, ${check}: ${detail.replaceAll('|', '\\|')}`,
  )
  return ['', `## ${title}`, '', intro, '', ...lines]
}
