import type { Command, CommandOption } from './command.ts'

const WIDTH = 100
const INDENT = 2
const MAX_LEFT_CHARS = 28

export const COMMON_OPTIONS = {
  url: {
    type: 'string',
    value: 'URL',
    help: 'URL of the service (default: REWARDOPS_URL, or http://127.0.0.1:3000)',
  },
  json: { type: 'boolean', help: 'print the result as JSON on stdout; progress stays on stderr' },
  help: { type: 'boolean', short: 'h', help: 'print this help' },
} as const satisfies Record<string, CommandOption>

export function programHelp(commands: readonly Command[]): string {
  return [
    'rewardops COMMAND [options]',
    '',
    'Scores, imports and exports rollouts with a rewardops service.',
    '',
    'Commands',
    ...twoColumns(commands.map(({ name, summary }) => [name, summary])),
    '',
    'rewardops start | worker | sandbox runs the service or a part of it. rewardops backup FILE saves its database, and',
    'rewardops restore FILE restores it. docs/deployment.md and docs/operations.md describe these commands.',
    '',
    'The service URL is --url or REWARDOPS_URL (default: http://127.0.0.1:3000). The API key is read from',
    'REWARDOPS_API_KEY. See "rewardops COMMAND --help" for details and docs/cli.md for examples.',
    '',
    'Exit codes: 0 success · 1 wrong input · 2 refused by the service · 3 service not reached · 4 batch failed ·',
    '5 --timeout passed',
  ].join('\n')
}

export function commandHelp({ name, usage, summary, details, options }: Command): string {
  const rows = Object.entries({ ...options, ...COMMON_OPTIONS }).map(
    ([long, option]: [string, CommandOption]) => {
      const short = option.short ? `-${option.short}, ` : ''
      const value = option.type === 'string' ? ` ${option.value ?? 'TEXT'}` : ''
      return [`${short}--${long}${value}`, option.help] as const
    },
  )
  return [
    `rewardops ${name} ${usage}`.trimEnd(),
    '',
    sentence(summary),
    ...(details ? ['', details.trim()] : []),
    '',
    'Options',
    ...twoColumns(rows),
  ].join('\n')
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`
}

function twoColumns(rows: readonly (readonly [string, string])[]): string[] {
  const left = Math.min(MAX_LEFT_CHARS, Math.max(...rows.map(([name]) => name.length)))
  const right = WIDTH - INDENT - left - 2
  return rows.flatMap(([name, text]) => {
    const lines = wrap(text, right)
    const first = name.length > left ? [`${' '.repeat(INDENT)}${name}`] : []
    return [
      ...first,
      ...lines.map((line, at) => {
        const label = at === 0 && first.length === 0 ? name : ''
        return `${' '.repeat(INDENT)}${label.padEnd(left)}  ${line}`
      }),
    ]
  })
}

function wrap(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string
    if (line === '') lines[lines.length - 1] = word
    else if (line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(word)
  }
  return lines
}
