'use client'

import { CSPProvider } from '@base-ui/react/csp-provider'
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { config as configureZod } from 'zod/v4/core'
import { describeFailure, retryDelayMs } from '../api/failure.ts'
import { STALE_MS } from '../api/pages.ts'
import { createClient, TRPCProvider } from '../api/trpc.ts'
import { LiveProvider } from '../live/live-provider.tsx'
import { useSession } from '../session/use-session.ts'
import { KeysProvider } from './keys.tsx'
import { LeaveProvider } from './leave.tsx'

// By default zod tries to compile schemas with `new Function`, which the Content-Security-Policy of the pages refuses.
configureZod({ jitless: true })

function createQueryClient(): QueryClient {
  // The reasons `unauthorized` and `forbidden_role` mean a revoked key, a changed role or an expired cookie, so the
  // session is read again.
  const onError = (error: unknown, key: readonly unknown[] | undefined) => {
    const path = key?.[0]
    if (Array.isArray(path) && path[0] === 'session') return
    const { reason } = describeFailure(error)
    if (reason === 'unauthorized' || reason === 'forbidden_role') {
      void client.invalidateQueries({ queryKey: [['session', 'get']] })
    }
  }
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError: (error, query) => onError(error, query.queryKey) }),
    mutationCache: new MutationCache({
      onError: (error, _variables, _result, mutation) =>
        onError(error, mutation.options.mutationKey),
    }),
    defaultOptions: {
      queries: {
        staleTime: STALE_MS,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        retry: (failures, error) => retryDelayMs(error, failures) !== null,
        retryDelay: (failures, error) => retryDelayMs(error, failures) ?? 0,
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  })
  return client
}

export function Providers({ children }: { children: ReactNode }) {
  const [queryClient] = useState(createQueryClient)
  const [trpcClient] = useState(createClient)
  return (
    <QueryClientProvider client={queryClient}>
      <TRPCProvider trpcClient={trpcClient} queryClient={queryClient}>
        <LiveWhenSignedIn>
          <LeaveProvider>
            {/* The Content-Security-Policy refuses style elements without a nonce, so globals.css has the rule
                that Base UI would add in a style element. */}
            <CSPProvider disableStyleElements>
              <KeysProvider>{children}</KeysProvider>
            </CSPProvider>
          </LeaveProvider>
        </LiveWhenSignedIn>
      </TRPCProvider>
    </QueryClientProvider>
  )
}

function LiveWhenSignedIn({ children }: { children: ReactNode }) {
  const session = useSession()
  const allowed =
    session.data !== undefined && (session.data.auth === 'open' || session.data.signedIn)
  return <LiveProvider enabled={allowed}>{children}</LiveProvider>
}
