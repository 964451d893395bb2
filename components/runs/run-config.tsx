'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus, SlidersHorizontal, X } from 'lucide-react'
import { useMemo, useState } from 'react'
import { configValues, MAX_TAG_CHARS, type RunConfigDto } from '../../server/contract/run-config.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-text.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { FieldAbout } from '../ui/field.tsx'
import { configText } from './run-cells.tsx'

export function RunConfig({ run }: { run: string }) {
  const trpc = useTRPC()
  const found = useQuery(trpc.runs.config.queryOptions({ run }, { meta: { topics: ['runs'] } }))
  const [isOpen, setIsOpen] = useState(false)
  const values = useMemo(() => [...configValues(found.data?.config ?? {})], [found.data])
  if (found.data === undefined) return null
  const { config, tags } = found.data
  return (
    <div className="flex flex-wrap items-center gap-2 border-b px-5 py-2 print:hidden">
      <Tags run={run} tags={tags} />
      {config !== null && (
        <Button small variant="quiet" className="sm:ml-auto" onClick={() => setIsOpen(true)}>
          <SlidersHorizontal size={13} aria-hidden />
          Configuration
          <span className="num text-ink-3">{plural(values.length, 'value')}</span>
        </Button>
      )}
      <Sheet open={isOpen} onClose={() => setIsOpen(false)} title="Configuration">
        <div className="flex items-center gap-3 px-5 py-3 text-xs text-ink-3">
          Sent by the trainer.
          <span className="ml-auto">
            <CopyButton text={JSON.stringify(config, null, 2)} label="Copy as JSON" />
          </span>
        </div>
        <table className="grid-table border-t">
          <tbody>
            {values.map(([key, value]) => (
              <tr key={key}>
                <th scope="row" className="static! h-auto! py-2 align-top font-mono text-2xs!">
                  {key}
                </th>
                <td className="num w-full py-2 wrap-anywhere whitespace-normal!">
                  {configText(value)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Sheet>
    </div>
  )
}

function Tags({ run, tags }: { run: string; tags: readonly string[] }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('trainer')
  const [draft, setDraft] = useState<string | null>(null)
  const [error, setError] = useState<string | null>(null)
  const update = useMutation(
    trpc.runs.update.mutationOptions({
      onError: (thrown) => setError(describeFailure(thrown).message),
      onSuccess: (answer: RunConfigDto) => {
        queryClient.setQueryData(trpc.runs.config.queryKey({ run }), answer)
        void queryClient.invalidateQueries(trpc.runs.facets.pathFilter())
        setDraft(null)
        setError(null)
      },
    }),
  )
  const add = () => {
    const tag = draft?.trim() ?? ''
    if (tag === '' || tags.includes(tag)) setDraft(null)
    else update.mutate({ run, addTags: [tag] })
  }
  return (
    <>
      <ul aria-label="Tags" className="contents">
        {tags.map((tag) => (
          <li
            key={tag}
            className="inline-flex h-7 max-w-64 items-center rounded-md border pl-2 text-xs text-ink-2"
          >
            <PageLink
              href={`/runs?tag=${encodeURIComponent(tag)}`}
              className="truncate hover:text-ink hover:underline"
              title={`Runs tagged “${tag}”`}
            >
              {tag}
            </PageLink>
            <IconButton
              label={`Remove tag ${tag}`}
              refused={refused}
              onClick={() => update.mutate({ run, removeTags: [tag] })}
            >
              <X size={12} aria-hidden />
            </IconButton>
          </li>
        ))}
      </ul>
      {draft === null ? (
        <Button small variant="quiet" refused={refused} onClick={() => setDraft('')}>
          <Plus size={13} aria-hidden />
          Add tag
        </Button>
      ) : (
        <input
          // biome-ignore lint/a11y/noAutofocus: the field replaces the button that was pressed
          autoFocus
          aria-label="New tag"
          placeholder="New tag"
          maxLength={MAX_TAG_CHARS}
          value={draft}
          disabled={update.isPending}
          onChange={(event) => setDraft(event.target.value)}
          onBlur={add}
          onKeyDown={(event) => {
            if (event.key === 'Enter') add()
            if (event.key === 'Escape') setDraft(null)
          }}
          className="h-7 w-32 rounded-md border border-line-strong bg-surface px-2 text-xs placeholder:text-ink-3"
        />
      )}
      <FieldAbout error={error} />
    </>
  )
}
