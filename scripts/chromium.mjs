import { existsSync } from 'node:fs'

const INSTALLED = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/snap/bin/chromium',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/**
 * The Chromium for the tests: CHROMIUM_PATH, else one that the machine has. Undefined: Playwright's own, if
 * it was downloaded.
 * @returns {string | undefined}
 */
export function findChromium() {
  const wanted = process.env.CHROMIUM_PATH
  if (wanted) {
    if (!existsSync(wanted)) throw new Error(`CHROMIUM_PATH is ${wanted}, which does not exist`)
    return wanted
  }
  return INSTALLED.find((path) => existsSync(path))
}
