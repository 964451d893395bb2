import {
  readSampleFilter,
  SAMPLE_FILTER_NAMES,
  type SampleFilterName,
} from '../../server/contract/sample-filter.ts'
import type { CommandOption } from './command.ts'
import { usageError } from './exit-codes.ts'

/** The filters of the Samples page as options. The export command defines run, batch, step and split itself. */
export const FILTER_OPTIONS = {
  rescored: {
    type: 'string',
    value: 'BOOL',
    help: 'true: only samples of rescores; false: only other samples',
  },
  uid: { type: 'string', value: 'UID', help: 'samples of this group' },
  'data-source': { type: 'string', value: 'NAME', help: 'samples of this data source' },
  status: { type: 'string', value: 'STATUS', help: 'queued, running, scored or failed' },
  reason: { type: 'string', value: 'REASON', help: 'failed for this reason, such as timeout' },
  verdict: { type: 'string', value: 'TEXT', help: 'scored with this verdict, such as "no answer"' },
  'group-signal': {
    type: 'string',
    value: 'SIGNAL',
    help: 'samples of groups with this signal, such as no_signal or all_correct',
  },
  'failed-tool-call': {
    type: 'string',
    value: 'BOOL',
    help: 'true: a tool call failed; false: none did',
  },
  server: { type: 'string', value: 'NAME', help: 'scored by this server' },
  'score-min': { type: 'string', value: 'N', help: 'score at least N' },
  'score-max': { type: 'string', value: 'N', help: 'score at most N' },
  'length-min': { type: 'string', value: 'N', help: 'response of at least N tokens' },
  'length-max': { type: 'string', value: 'N', help: 'response of at most N tokens' },
  'attempts-min': { type: 'string', value: 'N', help: 'at least N attempts' },
  substituted: {
    type: 'string',
    value: 'BOOL',
    help: 'true: score substituted by a failure policy',
  },
  annotated: { type: 'string', value: 'BOOL', help: 'true: has an annotation; false: has none' },
  label: { type: 'string', value: 'LABEL', help: 'has an annotation with this label' },
  text: {
    type: 'string',
    value: 'TEXT',
    help: 'literal text in prompt, response or ground truth; case is ignored',
  },
  extra: {
    type: 'string',
    value: 'COND',
    multiple: true,
    help: 'filter by reward extra info: KEY:present, KEY:number:0.5..1, KEY:boolean:true or KEY:text:VALUE; may be repeated',
  },
} as const satisfies Record<string, CommandOption>

function optionOf(name: SampleFilterName): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** Converts filter options to query parameters. @throws CliError naming an invalid option */
export function filterOf(values: Readonly<Record<string, unknown>>): URLSearchParams {
  const given = new URLSearchParams()
  for (const name of SAMPLE_FILTER_NAMES) {
    // The export command checks the batch id.
    if (name === 'batch') continue
    const value = values[optionOf(name)]
    for (const one of Array.isArray(value) ? value : [value]) {
      if (typeof one !== 'string') continue
      if (one === '') throw usageError(`--${optionOf(name)} is empty`)
      given.append(name, one)
    }
  }
  const { unread } = readSampleFilter(given)
  const [first] = unread
  if (first !== undefined) {
    throw usageError(`--${optionOf(first.name)} ${first.value}: ${first.message}`)
  }
  return given
}
