'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'
import { useLive } from '../live/live-provider.tsx'
import { useSession } from '../session/use-session.ts'
import { copyText } from '../ui/copy-text.tsx'
import { BASE_PATH } from '../url/base-path.ts'
import { type KeyBinding, useKeys } from './keys.tsx'
import { useLeave } from './leave.tsx'
import { NAVIGATION } from './pages.ts'
import { setTheme } from './theme.ts'

export function useSignOut(): () => void {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const signOut = useMutation(
    trpc.session.signOut.mutationOptions({
      onSuccess: () => {
        queryClient.clear()
        location.assign(`${BASE_PATH}/login`)
      },
    }),
  )
  return () => signOut.mutate({})
}

export function useShellKeys({ onPalette, onKeys }: { onPalette(): void; onKeys(): void }): void {
  const leave = useLeave()
  const { state, setFrozen } = useLive()
  const session = useSession()
  const signOut = useSignOut()
  const frozen = state.frozenAt !== null
  const anywhere = (label: string, run: () => void, key: string | null = null): KeyBinding => ({
    key,
    label,
    group: 'Everywhere',
    palette: 'anywhere',
    run,
  })
  useKeys([
    { key: 'mod+k', label: 'Open command palette', group: 'Everywhere', run: onPalette },
    anywhere('Show keyboard shortcuts', onKeys, '?'),
    anywhere(frozen ? 'Resume live updates' : 'Pause live updates', () => setFrozen(!frozen), 'l'),
    anywhere('Register server', () => leave.open('/servers?register=1')),
    anywhere('Open playground', () => leave.open('/rewards?view=try')),
    anywhere('Copy link to page', () => void copyText(location.href)),
    anywhere('Use light theme', () => setTheme('light')),
    anywhere('Use dark theme', () => setTheme('dark')),
    anywhere('Use system theme', () => setTheme('system')),
    ...(session.data?.auth === 'key' && session.data.signedIn
      ? [anywhere('Sign out', signOut)]
      : []),
    ...NAVIGATION.flatMap(({ pages }) => pages).flatMap(({ key, label, href }) =>
      key === undefined
        ? []
        : [{ key: `g ${key}`, label, group: 'Go to', run: () => leave.open(href) }],
    ),
  ])
}
