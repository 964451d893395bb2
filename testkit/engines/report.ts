import type { Outcome } from './checks.ts'

/** A check that is planned for a release, whether it was run or not. */
export type Planned = Pick<Outcome, 'release' | 'check'>

const OBSERVATIONS = [
  'Each line names the release, the check (with its model) and what was observed. “At most 1.3e-5 off” means that the',
  'largest difference between a score and the expected one was 1.3e-5. The expected scores come from transformers, or are',
  '0.75 for the judge.',
].join('\n')

/** Formats the outcomes as a table of checks by release, with the details of each check below. */
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
    'This page lists checks of the service against real vLLM and llama.cpp servers on a CPU, with tiny models of random',
    'weights, and against [`rewardops serve-reward`](python.md#reward-functions-in-python).',
    '`npm run test:engines -- --write-docs` installs the servers, runs the checks and writes this page; see',
    '[testkit/engines](../testkit/engines/README.md). The checks do not measure speed.',
    '',
    `Run on ${date}: ${passed.length} checks pass, ${failed.length} ${failed.length === 1 ? 'fails' : 'fail'}${missing > 0 ? `, ${missing} were not run` : ''}.`,
    '',
    'A cell is empty if the check does not apply to the release.',
    '',
    row(['', ...releases]),
    row(['---', ...releases.map(() => '---')]),
    ...checks.map((check) => row([check, ...releases.map((release) => cell(check, release))])),
    ...section(
      'Failures',
      'Each line names the release, the check (with its model) and the problem.',
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
