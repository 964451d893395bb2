import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { buildPackage } from '../../build.mjs'

const root = join(import.meta.dirname, '../../..')

test('the installed package runs and type-checks without the repository', async () => {
  const project = mkdtempSync(join(tmpdir(), 'math-verify-consumer-'))
  onTestFinished(() => rmSync(project, { recursive: true, force: true }))
  const installed = join(project, 'node_modules/@rewardops/math-verify')
  mkdirSync(installed, { recursive: true })
  cpSync(join(root, 'packages/math-verify/package.json'), join(installed, 'package.json'))
  await buildPackage(join(root, 'packages/math-verify'), join(installed, 'dist'))
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(join(project, 'main.ts'), CONSUMER)
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const options = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--module', 'nodenext']
  const lib = ['--target', 'es2022', '--lib', 'ESNext,DOM', '--types', '']
  execFileSync(process.execPath, [tsc, ...options, ...lib, 'main.ts'], { cwd: project })
  const stdout = execFileSync(process.execPath, ['main.ts'], { cwd: project, encoding: 'utf8' })
  expect(stdout.trim()).toBe('true equal {1, 2}')
})

const CONSUMER = String.raw`
import { formatAnswer, parse, verifyResponse } from '@rewardops/math-verify'
const { correct, reason } = verifyResponse('So it is $\\boxed{\\frac{1}{2}}$.', '0.5')
console.log(correct satisfies boolean, reason satisfies string, formatAnswer(parse('$1, 2$').value!))
`
