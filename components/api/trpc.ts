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

/** Returns typed query and mutation options for every procedure. */
export const { TRPCProvider, useTRPC, useTRPCClient } = createTRPCContext<AppRouter>()

/**
 * The tRPC client of the pages. Queries of one tick share a streamed request, so a slow query does not delay the
 * others. Signing in and out uses a request of its own, because a streamed response cannot set a cookie.
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
          // Below the 8 KiB to 16 KiB that proxies and Node allow for a request line.
          false: httpBatchStreamLink({ url, maxURLLength: 4096 }),
        }),
      }),
    ],
  })
}
