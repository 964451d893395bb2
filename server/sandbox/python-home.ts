import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { release } from 'node:os'
import { promisify } from 'node:util'
import { COUNTS_IN_NAMESPACES, kernelCountsInNamespaces } from '../isolation/resource-limits.ts'
import type { SandboxBind } from '../isolation/sandbox.ts'
import { checkSandbox } from '../isolation/sandbox-check.ts'
import { sandboxUser } from './python-runs.ts'

const USUAL_PATHS = ['/usr/bin/python3', '/usr/local/bin/python3']
/** The package in `python/` uses features of this version. */
const MIN_PYTHON = '3.10'

export type PythonHome =
  | { ok: true; python: string; binds: SandboxBind[] }
  | { ok: false; reason: string; remedy: string }

/**
 * Finds the interpreter and checks that it can be run in a sandbox. `configured` is its path, or null to try {@link
 * USUAL_PATHS}.
 */
export async function findPython(configured: string | null): Promise<PythonHome> {
  const refused = (reason: string, remedy: string) => ({ ok: false as const, reason, remedy })
  const python = configured ?? USUAL_PATHS.find((path) => existsSync(path))
  const isLinux = process.platform === 'linux'
  // On older kernels, the process limit of a run would count the processes of all runs.
  if (isLinux && !kernelCountsInNamespaces()) {
    const wanted = COUNTS_IN_NAMESPACES.join('.')
    return refused(`Linux ${release()} is too old.`, `Run the service on Linux ${wanted} or newer.`)
  }
  if (isLinux && (python === undefined || !existsSync(python))) {
    return refused(
      `There is no Python at ${python ?? USUAL_PATHS.join(' or ')}.`,
      `Install Python ${MIN_PYTHON} or newer, or set REWARDOPS_SANDBOX_PYTHON to its path.`,
    )
  }
  let binds: SandboxBind[] = []
  try {
    if (isLinux) binds = await foldersOf(python as string)
  } catch (error) {
    const remedy = `Set REWARDOPS_SANDBOX_PYTHON to the path of Python ${MIN_PYTHON} or newer.`
    return refused(`${python} does not run: ${(error as Error).message}`, remedy)
  }
  const user = sandboxUser()
  const check = await checkSandbox({ ...(user && { user }), binds })
  return check.ok ? { ok: true, python: python as string, binds } : check
}

/** The folders of an interpreter outside /usr. Every sandbox already has /usr. */
async function foldersOf(python: string): Promise<SandboxBind[]> {
  const script = 'import sys; print(sys.prefix); print(sys.base_prefix); print(sys.executable)'
  const { stdout } = await promisify(execFile)(python, ['-I', '-c', script], { timeout: 20_000 })
  const [prefix = '', base = '', executable = ''] = stdout.split('\n')
  const folders = [prefix, base, executable].filter(
    (path) => path !== '' && !path.startsWith('/usr'),
  )
  return [...new Set(folders)].map((from) => ({ from }))
}
