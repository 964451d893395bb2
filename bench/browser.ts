import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Browser, chromium } from '@playwright/test'
import { findChromium } from '../scripts/chromium.mjs'

const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run']

/** A browser as the tests have it. */
export function launchBrowser(): Promise<Browser> {
  return launch(findChromium())
}

/**
 * A browser that is served before everything else on this machine, as if it had cores of its own, which a reader's has.
 * Null where that may not be asked for, or the browser is Playwright's own. `folder` takes a script of two lines.
 */
export async function launchBrowserFirst(folder: string): Promise<Browser | null> {
  const chromiumPath = findChromium()
  if (chromiumPath === undefined || process.getuid?.() !== 0) return null
  const script = join(folder, 'browser-first.sh')
  await writeFile(script, `#!/bin/sh\nexec nice -n -19 '${chromiumPath}' "$@"\n`)
  await chmod(script, 0o755)
  return launch(script)
}

function launch(executablePath: string | undefined): Promise<Browser> {
  return chromium.launch({
    ...(executablePath === undefined ? {} : { executablePath }),
    args: ARGS,
  })
}
