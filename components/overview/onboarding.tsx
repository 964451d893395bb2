'use client'

import { useMutation } from '@tanstack/react-query'
import { useRouter } from 'next/navigation'
import { useState } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { useMay } from '../session/use-may.ts'
import { useSession } from '../session/use-session.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-text.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Segmented } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { type Snippet, submitSnippets } from './snippets.ts'

const STEPS = [
  [
    'submit',
    'A training job submits the rollouts of a step: run, step, samples grouped by prompt.',
  ],
  [
    'score',
    'Worker processes score them with a rule or with a reward-model server that you register.',
  ],
  [
    'next',
    'Groups are returned as they complete. This dashboard shows their scores, failures and timing.',
  ],
] as const

export function Onboarding() {
  const trpc = useTRPC()
  const router = useRouter()
  const refused = useMay('trainer')
  const demo = useMutation(
    trpc.demo.load.mutationOptions({
      onSuccess: ({ batchId }) => router.push(`/batches/${batchId}`),
    }),
  )
  return (
    <div className="mx-auto grid max-w-[1180px] gap-x-14 gap-y-10 px-5 py-10 lg:grid-cols-[minmax(0,400px)_minmax(0,1fr)] lg:py-14">
      <div>
        <h2 className="text-xl tracking-tight text-balance">No rollouts yet</h2>
        <p className="mt-2 text-md text-ink-2 text-pretty">
          This service computes rewards outside the trainer. Submit your first batch, and this page
          becomes the dashboard.
        </p>
        <ol className="mt-7 border-l">
          {STEPS.map(([name, text]) => (
            <li key={name} className="relative pb-5 pl-5 last:pb-0">
              <span
                className="absolute top-[7px] -left-[3.5px] size-1.5 rounded-full bg-ink-3"
                aria-hidden
              />
              <span className="font-mono text-xs font-medium">{name}</span>
              <p className="text-ink-2">{text}</p>
            </li>
          ))}
        </ol>
        <div className="mt-8 rounded-lg border bg-sunken p-4">
          <p className="font-medium">Demo data</p>
          <p className="mt-0.5 text-ink-2">
            The demo submits 512 synthetic rollouts as the run “demo”: 64 problems with 8 responses
            each, scored by a rule.
          </p>
          <Button
            variant="primary"
            className="mt-3"
            refused={refused}
            busy={demo.isPending || demo.isSuccess}
            onClick={() => demo.mutate({})}
          >
            {demo.isPending || demo.isSuccess ? 'Loading demo…' : 'Load demo'}
          </Button>
          {demo.error && <FailureView compact error={demo.error} onRetry={() => demo.mutate({})} />}
        </div>
      </div>
      <FirstBatch />
    </div>
  )
}

function FirstBatch() {
  const session = useSession()
  const [language, setLanguage] = useState<Snippet['language']>('curl')
  if (session.data === undefined) return <Skeleton height={320} className="w-full rounded-lg" />
  const snippets = submitSnippets(session.data.address, session.data.auth === 'key')
  const snippet = snippets.find((each) => each.language === language) ?? (snippets[0] as Snippet)
  return (
    <div className="min-w-0">
      <div className="overflow-hidden rounded-lg border">
        <header className="flex h-11 items-center gap-3 border-b bg-sunken px-3">
          <Segmented
            label="Language"
            value={language}
            onChange={setLanguage}
            options={snippets.map((each) => ({ value: each.language, label: each.language }))}
          />
          <span className="ml-auto hidden text-xs text-ink-3 sm:inline">
            Requires {snippet.needs}
          </span>
          <CopyButton text={snippet.code} label="Copy" />
        </header>
        <Scroll label={`${snippet.language} example`}>
          <pre data-snippet={snippet.language} className="p-4 font-mono text-xs leading-[19px]">
            {snippet.code}
          </pre>
        </Scroll>
      </div>
      <div className="mt-3 rounded-lg border px-4 py-3">
        <p className="mb-1 text-xs text-ink-3">Output</p>
        <code className="block font-mono text-xs break-words">{snippet.prints}</code>
      </div>
      <p className="mt-3 flex items-center gap-2 text-xs text-ink-3">
        <span className="pulse size-1.5 rounded-full bg-accent" aria-hidden />
        Waiting for the first batch on <span className="font-mono">{session.data.address}</span>
      </p>
    </div>
  )
}
