import {
  createTRPCClient,
  httpBatchStreamLink,
  httpLink,
  httpSubscriptionLink,
  splitLink,
  type TRPCClient,
} from '@trpc/client'
import { createTRPCContext } from '@trpc/tanstack-react-query'
import type { AppRouter } from '../../server/api/root.ts'

/** `useTRPC()` gives typed query and mutation options of every procedure. */
export const { TRPCProvider, useTRPC, useTRPCClient } = createTRPCContext<AppRouter>()

/**
 * The client of the pages. Queries of one moment travel in one streamed request, so that a slow one
 * does not hold the others; signing in and out goes alone, because a streamed answer cannot set a cookie.
 */
export function createClient(): TRPCClient<AppRouter> {
  const url = '/api/trpc'
  return createTRPCClient<AppRouter>({
    links: [
      splitLink({
        condition: (op) => op.type === 'subscription',
        true: httpSubscriptionLink({ url }),
        false: splitLink({
          condition: (op) => op.type === 'mutation',
          true: httpLink({ url }),
          // Well under the 8 KiB to 16 KiB that proxies and Node allow a request line.
          false: httpBatchStreamLink({ url, maxURLLength: 4096 }),
        }),
      }),
    ],
  })
}
