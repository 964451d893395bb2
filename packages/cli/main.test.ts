import { readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { inFullRun, itInFullRun } from '../../testkit/service/full-run.ts'
import { EXIT } from './exit-codes.ts'
import { commandNames, loadCommand } from './registry.ts'
import { runCli } from './testing/run-cli.ts'

itInFullRun('the help lists every command, and the help of a command its options', async () => {
  const names = readdirSync(new URL('./commands', import.meta.url)).map((file) => file.slice(0, -3))
  expect(commandNames()).toEqual(names.sort())
  for (const args of [[], ['--help'], ['help']]) {
    const { code, stdout } = await runCli(args)
    expect(code).toBe(EXIT.ok)
    for (const name of names) expect(stdout).toMatch(new RegExp(`^  ${name} +\\S`, 'm'))
  }
  const { stdout } = await runCli(['import', '--help'])
  expect(stdout).toMatch(/^rewardops import FILE\.\.\. \[options\]/)
  expect(stdout).toMatch(/--skip-bad +skip and count bad rows/)
  expect(await runCli(['help', 'import'])).toMatchObject({ code: EXIT.ok, stdout })
})

it.each(commandNames())('%s describes itself and its options', async (name) => {
  const command = await loadCommand(name)
  expect(command).toMatchObject({ name, summary: expect.stringMatching(/^[a-z].{10,}[^.]$/) })
  for (const [option, { help }] of Object.entries(command?.options ?? {})) {
    expect(help, option).toMatch(/\S{3}/)
  }
})

it.each<[string[], string]>([
  [['inport'], 'There is no command "inport". The commands are: export, import'],
  [['run', 'r', '--config', '[1]'], '--config is not a JSON object'],
  [['wait', 'b1', '--timeout', 'soon'], '--timeout soon: expected a whole number'],
  [['import', 'x.jsonl', '--reward', '{"manager":7}'], '--reward: manager: '],
  [['export', '--run', 'r', '--resume'], '--resume needs --out'],
  [['submit', '/nowhere.jsonl', '--run', 'r', '--step', '1'], 'no such file'],
  ...inFullRun<[string[], string]>(
    [['import'], 'Usage: rewardops import FILE...'],
    [['wait'], 'Usage: rewardops wait BATCH'],
    [['wait', '12'], '"12" is not a batch id such as "b12"'],
    [['import', 'x.jsonl', '--colour'], "Unknown option '--colour'"],
    [['import', 'x.jsonl', '--reward', '{'], '--reward is not valid JSON'],
    [['import', 'x.jsonl', '--reward', '@/nowhere.json'], 'cannot be read (ENOENT)'],
    [['rescore', 'b1'], 'rescore needs --reward'],
    [['export'], 'export needs --batch ID, --run NAME or another filter'],
    [['export', '--run', 'r', '--format', 'xml'], 'expected jsonl, csv, parquet or verl'],
    [
      ['export', '--run', 'r', '--format', 'parquet', '--out', 'x', '--resume'],
      '--resume cannot be used with --format parquet',
    ],
  ),
])('%j is an error in the command line', async (args, message) => {
  const { code, stdout, stderr } = await runCli(args, { REWARDOPS_URL: 'http://127.0.0.1:9' })
  expect(stderr).toContain(message)
  expect({ code, stdout }).toEqual({ code: EXIT.badInput, stdout: '' })
})

it('--version prints the version of the package', async () => {
  expect((await runCli(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})
