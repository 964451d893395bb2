import { defineCommand } from '../command.ts'
import { CliError, EXIT, usageError } from '../exit-codes.ts'
import type { ImportOptions } from '../import/import-options.ts'
import { type Survey, survey } from '../import/survey.ts'
import { type UploadState, upload } from '../import/upload.ts'
import { REWARD_OPTION, readReward, splitOption, wholeNumber } from '../option-values.ts'
import { number, Pace, showProgress } from '../progress.ts'
import { AWAY_MS, exitCodeOf, summaryLines, waitForBatch } from '../wait-batch.ts'

const DRAW_MS = 100
const MAX_LISTED = 20

export const command = defineCommand({
  name: 'import',
  summary: 'import rollouts: JSON Lines, CSV, Parquet or verl dumps',
  usage: 'FILE... [options]',
  details: `FILE is a file, optionally gzipped, or a folder of files, such as verl's trainer.rollout_data_dir with one file per step.
Every row is checked before the first is sent. Each step of each run becomes a batch. Scores in the file
are kept; rows without a score are scored by --reward.

After an interruption (Ctrl-C, kill -9, an outage of the service) the same command continues where it stopped and stores
nothing twice. The same files with the same options are the same import.`,
  positionals: { min: 1, max: Number.POSITIVE_INFINITY },
  options: {
    run: { type: 'string', value: 'NAME', help: 'run of all rows (default: as in the file)' },
    step: { type: 'string', value: 'N', help: 'step of all rows (default: as in the file)' },
    split: {
      type: 'string',
      value: 'SPLIT',
      help: 'train or val (default: as in the file, else train)',
    },
    reward: {
      ...REWARD_OPTION,
      help: 'reward for rows without a score: JSON as batches.submit takes it, or @FILE; default: the rule of each data source',
    },
    'ignore-scores': {
      type: 'boolean',
      help: 'score all rows; scores in the file are kept as extraInfo.logged_score',
    },
    'data-source': {
      type: 'string',
      value: 'NAME',
      help: 'data source of a dump that names none, for example openai/gsm8k',
    },
    'group-size': {
      type: 'string',
      value: 'N',
      help: 'samples per uid; a group with this many samples completes before the batch is closed',
    },
    'skip-bad': { type: 'boolean', help: 'skip and count bad rows' },
    key: {
      type: 'string',
      value: 'TEXT',
      help: 'a different key imports the same files again',
    },
    wait: { type: 'boolean', help: 'wait until all samples are scored' },
    'fail-on-failed': {
      type: 'boolean',
      help: 'with --wait: exit code 4 also if a sample failed',
    },
  },
  async run({ values, positionals, output, service, signal }) {
    if (values.run === '') throw usageError('--run needs a name')
    const options: ImportOptions = {
      run: values.run ?? null,
      step: wholeNumber('step', values.step) ?? null,
      split: splitOption(values.split) ?? null,
      groupSize: wholeNumber('group-size', values['group-size'], 1, 100_000) ?? null,
      reward: readReward(values.reward),
      dataSource: values['data-source'] ?? null,
      scores: values['ignore-scores'] ? 'log' : 'keep',
      skipBad: values['skip-bad'] === true,
      key: values.key ?? '',
    }
    const client = await service()

    const checking = throttled(showProgress('check', output.stderr))
    const surveyed = await survey(
      positionals,
      options,
      (done, total, rows) => checking.update({ done, total, note: `bytes, ${number(rows)} rows` }),
      signal,
    )
    for (const line of notesOf(surveyed)) output.note(line)
    for (const bad of surveyed.firstBad) output.note(bad)
    if (surveyed.badRows > surveyed.firstBad.length) {
      output.note(`and ${number(surveyed.badRows - surveyed.firstBad.length)} more`)
    }
    if (surveyed.badRows > 0 && !options.skipBad) {
      throw new CliError(
        EXIT.badInput,
        `Bad rows: ${number(surveyed.badRows)} of ${number(surveyed.badRows + surveyed.rows)}. Nothing was sent; --skip-bad skips them.`,
      )
    }
    if (surveyed.rows === 0) throw new CliError(EXIT.badInput, 'There are no rows to import.')

    const startedAt = performance.now()
    const pace = new Pace()
    const bar = showProgress('import', output.stderr)
    const importing = throttled(bar)
    const state = (now: UploadState) => ({
      done: now.stored,
      total: surveyed.rows,
      note: pace.note(now.stored, surveyed.rows),
    })
    const call = {
      retryForMs: AWAY_MS,
      signal,
      onRetry: (why: string, inMs: number) => output.note(`${why} Retrying in ${inMs} ms.`),
    }
    const end = await upload(surveyed, options, client, call, (now) =>
      importing.update(() => state(now)),
    )
    const seconds = (performance.now() - startedAt) / 1_000
    const stored = end.stored - end.before
    const rowsPerSecond = Math.round(stored / seconds)
    bar.end({
      done: end.stored,
      total: surveyed.rows,
      note: stored === 0 ? 'already imported' : `${number(rowsPerSecond)} rows/s`,
    })

    let code: number = EXIT.ok
    const batches: { batchId: string; run: string; step: number; split: string; rows: number }[] =
      []
    for (const { batchId, step, rows } of end.uploads)
      batches.push({ batchId: batchId as string, ...step, rows })
    output.table(
      ['BATCH', 'RUN', 'STEP', 'SPLIT', 'ROWS'],
      batches
        .slice(0, MAX_LISTED)
        .map(({ batchId, run, step, split, rows }) => [batchId, run, step, split, rows]),
    )
    if (batches.length > MAX_LISTED)
      output.line(`and ${number(batches.length - MAX_LISTED)} more batches`)
    output.line(
      `${number(surveyed.rows)} rows in ${number(batches.length)} ${batches.length === 1 ? 'batch' : 'batches'}` +
        `${end.before > 0 ? `, ${number(end.before)} of them already stored` : ''}` +
        `${surveyed.badRows > 0 ? `; ${number(surveyed.badRows)} bad rows skipped` : ''}`,
    )
    if (values.wait) {
      for (const { batchId } of batches) {
        const summary = await waitForBatch(client, batchId, output, signal, null)
        for (const line of summaryLines(summary)) output.line(line)
        code = Math.max(code, exitCodeOf(summary, values['fail-on-failed'] === true))
      }
    }
    output.data({
      rows: surveyed.rows,
      before: end.before,
      badRows: surveyed.badRows,
      seconds: Math.round(seconds * 1_000) / 1_000,
      rowsPerSecond,
      batches,
    })
    return code
  },
})

/** Files of a folder are usually alike, so equal notes are merged. */
function notesOf({ files }: Survey): string[] {
  const paths = new Map<string, string[]>()
  for (const { file } of files) {
    for (const note of file.notes) paths.set(note, [...(paths.get(note) ?? []), file.path])
  }
  return [...paths].map(([note, [first, ...others]]) => {
    const more = others.length === 0 ? '' : ` and ${number(others.length)} more`
    return `${first}${more}: ${note}`
  })
}

/** Draws rarely, because drawing a line takes longer than reading a row (20 µs). */
function throttled(progress: {
  update(state: Parameters<ReturnType<typeof showProgress>['update']>[0]): void
}) {
  let drawnAt = Number.NEGATIVE_INFINITY
  type State = Parameters<typeof progress.update>[0]
  return {
    update(state: State | (() => State)) {
      const now = performance.now()
      if (now - drawnAt < DRAW_MS) return
      drawnAt = now
      progress.update(typeof state === 'function' ? state() : state)
    },
  }
}
