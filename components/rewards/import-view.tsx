'use client'

import { useMutation } from '@tanstack/react-query'
import { FileInput } from 'lucide-react'
import { type FormEvent, type KeyboardEvent, useState } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { useModifier } from '../shell/use-modifier.ts'
import { Button } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { TextArea } from '../ui/field.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { IMPORT_EXAMPLES } from './import-examples.ts'
import { ImportResult } from './import-result.tsx'

export function ImportView() {
  const trpc = useTRPC()
  const modifier = useModifier()
  const [text, setText] = useState('')
  const importing = useMutation(trpc.rewards.importConfig.mutationOptions())
  const read = (of: string) => {
    if (of.trim() !== '') importing.mutate({ text: of })
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    read(text)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      read(text)
    }
  }
  return (
    <div className="lg:grid lg:grid-cols-[minmax(0,440px)_minmax(0,1fr)] xl:grid-cols-[minmax(0,520px)_minmax(0,1fr)]">
      <form
        onSubmit={submit}
        onKeyDown={onKeyDown}
        aria-label="Import configuration"
        className="px-5 py-4 lg:sticky lg:top-12 lg:self-start"
      >
        <p className="mb-1 text-xs font-medium text-ink-2">Example</p>
        <div className="mb-4 flex flex-wrap gap-1.5">
          {IMPORT_EXAMPLES.map((example) => (
            <Button
              key={example.name}
              small
              onClick={() => {
                setText(example.text)
                read(example.text)
              }}
            >
              {example.name}
            </Button>
          ))}
        </div>
        <TextArea
          label="Configuration"
          note="YAML or a training command"
          hint="The configuration is not executed or stored."
          rows={20}
          mono
          wrap="off"
          value={text}
          onChange={(event) => setText(event.target.value)}
          placeholder={'reward:\n  reward_manager:\n    name: dapo'}
        />
        <Button
          type="submit"
          variant="primary"
          className="mt-3"
          busy={importing.isPending}
          disabled={text.trim() === ''}
        >
          Convert
          <kbd aria-hidden className="font-mono text-2xs">
            {modifier}↵
          </kbd>
        </Button>
      </form>
      <div
        className="min-w-0 max-lg:border-t lg:min-h-[calc(100dvh-92px)] lg:border-l"
        aria-live="polite"
      >
        {importing.error ? (
          <FailureView error={importing.error} onRetry={() => read(text)} />
        ) : importing.data ? (
          <ImportResult config={importing.data} />
        ) : importing.isPending ? (
          <TableSkeleton columns={4} rows={8} />
        ) : (
          <Empty icon={FileInput} title="No configuration yet">
            Paste the configuration or the command of a verl run. Each key is reported as supported,
            not applicable, unresolved or unknown, with its effect or the reason.
          </Empty>
        )}
      </div>
    </div>
  )
}
