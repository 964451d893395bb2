'use client'

import { useMutation } from '@tanstack/react-query'
import { useRouter, useSearchParams } from 'next/navigation'
import { type FormEvent, useEffect, useState } from 'react'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Mark } from '../shell/mark.tsx'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { useErrorFocus } from '../ui/use-error-focus.ts'
import { BASE_PATH } from '../url/base-path.ts'
import { nextPath } from './next-path.ts'
import { useSession } from './use-session.ts'

/** The sign-in form. It redirects immediately if no keys are required or the user is signed in. */
export function LoginPage() {
  const trpc = useTRPC()
  const router = useRouter()
  const next = nextPath(useSearchParams().get('next'))
  const session = useSession()
  const [key, setKey] = useState('')
  const [missing, setMissing] = useState(false)
  const signIn = useMutation(
    trpc.session.signIn.mutationOptions({
      // A full page load drops all unauthenticated state.
      onSuccess: () => location.assign(BASE_PATH + next),
    }),
  )
  const needless =
    session.data !== undefined && (session.data.auth === 'open' || session.data.signedIn)
  useEffect(() => {
    if (needless) router.replace(next)
  }, [needless, next, router])
  const failure = signIn.error && describeFailure(signIn.error)
  const { place, submitted } = useErrorFocus<HTMLFormElement>(signIn.isPending)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    submitted()
    setMissing(key.trim() === '')
    if (key.trim() !== '') signIn.mutate({ key: key.trim() })
  }
  return (
    <main className="flex min-h-dvh items-center justify-center bg-canvas p-5">
      <form
        ref={place}
        onSubmit={submit}
        noValidate
        className="w-full max-w-[360px] rounded-xl border bg-surface p-6 shadow-pop"
      >
        <div className="mb-5 flex items-center gap-2.5">
          <Mark size={24} />
          <h1 className="text-md">Sign in to rewardops</h1>
        </div>
        <TextField
          label="API key"
          type="password"
          mono
          autoFocus
          autoComplete="current-password"
          value={key}
          onChange={(event) => {
            setKey(event.target.value)
            setMissing(false)
            signIn.reset()
          }}
          error={
            missing ? 'Enter a key.' : failure ? `${failure.message} ${failure.hint}` : undefined
          }
          hint="An API key, as used by trainers. An admin creates keys under Settings, Access."
        />
        <Button
          type="submit"
          variant="primary"
          className="mt-5 w-full"
          busy={signIn.isPending || signIn.isSuccess}
        >
          Sign in
        </Button>
      </form>
    </main>
  )
}
