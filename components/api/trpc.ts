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
import { BASE_PATH } from '../url/base-path.ts'

export const { TRPCProvider, useTRPC, useTRPCClient } = createTRPCContext<AppRouter>()

/**
 * The tRPC client of the pages. Queries of one tick share a streamed request, so a slow query does not delay the
 * others. Each mutation has its own request, because a streamed response cannot set the cookie of a sign-in.
 */
export function createClient(): TRPCClient<AppRouter> {
  const url = `${BASE_PATH}/api/trpc`
  return createTRPCClient<AppRouter>({
    links: [
      splitLink({
        condition: (op) => op.type === 'subscription',
        true: httpSubscriptionLink({ url }),
        false: splitLink({
          condition: (op) => op.type === 'mutation',
          true: httpLink({ url }),
          // The URL stays short, because proxies and Node allow a request line of 8 to 16 KiB.
          false: httpBatchStreamLink({ url, maxURLLength: 4096 }),
        }),
      }),
    ],
  })
}
