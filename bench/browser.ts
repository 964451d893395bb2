import { type Browser, chromium } from '@playwright/test'
import { findChromium } from '../scripts/chromium.mjs'

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    ...(findChromium() === undefined ? {} : { executablePath: findChromium() as string }),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'],
  })
}
