import { defineConfig } from '@playwright/test'
import { findChromium } from './scripts/chromium.mjs'

const full = process.env.REWARDOPS_TEST_FULL === '1'

/**
 * Chromium features that are disabled to save time. Chromium honors only one such list, so this one begins with the
 * features that Playwright 1.65 disables.
 */
const DISABLED_FEATURES = [
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades'],
  ...['HttpsFirstBalancedModeAutoEnable', 'LensOverlay', 'MediaRouter', 'PaintHolding'],
  ...['ThirdPartyStoragePartitioning', 'AvoidCorsURLLoaderRestartOnRedirect'],
  ...['OptimizationHints', 'NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch'],
  // The address bar renders its suggestions in two pages, which take 0.6 s of CPU time in every test.
  ...['WebUIOmniboxPopup', 'WebUIOmniboxFullPopup', 'WebUIOmniboxAimPopup'],
]

// No webServer: specs share a service or start their own, on free ports and with their own data folders.
export default defineConfig({
  testDir: 'e2e',
  // Only `npm run test:full` runs files named *.full.spec.ts and tests tagged @full.
  ...(full ? {} : { testIgnore: '**/*.full.spec.ts', grepInvert: /@full/ }),
  globalSetup: './e2e/fixtures/global-setup.ts',
  outputDir: 'test-results/playwright',
  timeout: 120_000,
  fullyParallel: false,
  // Two workers with their services and browsers would share two cores and take longer than one.
  workers: 1,
  expect: {
    timeout: 15_000,
    toHaveScreenshot: {
      // All machines share one reference screenshot per test. Differences between builds of Chromium are within the
      // tolerance of charts.spec.ts.
      pathTemplate: '{testDir}/pictures/{arg}{ext}',
      animations: 'disabled',
      caret: 'hide',
    },
  },
  retries: 0,
  forbidOnly: process.env.CI !== undefined,
  reporter: [['list'], ['json', { outputFile: 'test-results/playwright.json' }]],
  use: {
    viewport: { width: 1280, height: 800 },
    // TRACE=1 keeps the traces of failed tests. Tracing makes up 20 % of the run time, so it is off by default.
    trace: process.env.TRACE === '1' ? 'retain-on-failure' : 'off',
    screenshot: 'only-on-failure',
    // Transitions make up 10 % of the run time. Only the full run has them.
    contextOptions: { reducedMotion: full ? 'no-preference' : 'reduce' },
    launchOptions: {
      executablePath: findChromium(),
      args: [
        ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
        ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
        `--disable-features=${DISABLED_FEATURES.join(',')}`,
        // Containers give /dev/shm 64 MB; a page with charts needs more.
        '--disable-dev-shm-usage',
      ],
    },
  },
})
