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
 * Finds the Chromium for the tests: CHROMIUM_PATH, else an installed one. Without either, Playwright uses its own.
 * @returns {string | undefined}
 * @throws {Error} if CHROMIUM_PATH does not exist
 */
export function findChromium() {
  const wanted = process.env.CHROMIUM_PATH
  if (wanted) {
    if (!existsSync(wanted)) throw new Error(`CHROMIUM_PATH is ${wanted}, which does not exist`)
    return wanted
  }
  return INSTALLED.find((path) => existsSync(path))
}
