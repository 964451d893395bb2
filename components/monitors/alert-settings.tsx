'use client'

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { BellOff, CircleCheck, CircleX, Pencil, Plus, Send, Webhook } from 'lucide-react'
import { useState } from 'react'
import {
  MAX_COUNTED_DELIVERIES,
  MAX_LISTED_WEBHOOKS,
  type TestedWebhookDto,
  type WebhookDto,
} from '../../server/contract/alerts.ts'
import { describeFailure } from '../api/failure.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { durationText, formatCount, plural } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { DeliveryStateView } from './delivery-state.tsx'
import { monitorLabel } from './monitor-words.ts'
import {
  MONITOR_GROUPS,
  SEVERITY_CHOICES,
  selectedMonitors,
  severityChoice,
} from './webhook-form.prepare.ts'
import { WebhookSheet } from './webhook-sheet.tsx'

export function AlertSettings() {
  const trpc = useTRPC()
  const webhooks = useQuery(
    trpc.alerts.list.queryOptions(undefined, { meta: { topics: ['monitors'] } }),
  )
  const refused = useMay('admin')
  const [edited, setEdited] = useState<WebhookDto | 'new' | null>(null)
  return (
    <>
      <QueryView query={webhooks} skeleton={<TableSkeleton columns={5} rows={3} />}>
        {(data) =>
          data.length === 0 ? (
            <Empty
              icon={Webhook}
              title="No webhooks yet"
              actions={
                <Button variant="primary" refused={refused} onClick={() => setEdited('new')}>
                  Add webhook
                </Button>
              }
            >
              A webhook receives a POST with JSON when an incident opens, escalates or resolves.
              Slack and similar tools display its field{' '}
              <code className="font-mono text-xs">text</code>.
            </Empty>
          ) : (
            <>
              <Section
                title="Webhooks"
                note={`${data.length >= MAX_LISTED_WEBHOOKS ? 'First ' : ''}${formatCount(data.length)}`}
                className="border-b"
                actions={
                  <Button
                    small
                    variant="primary"
                    refused={refused}
                    onClick={() => setEdited('new')}
                  >
                    <Plus size={14} aria-hidden />
                    Add webhook
                  </Button>
                }
              >
                <ul>
                  {data.map((webhook) => (
                    <WebhookItem
                      key={webhook.id}
                      webhook={webhook}
                      onEdit={() => setEdited(webhook)}
                    />
                  ))}
                </ul>
              </Section>
              <DeliveryLog />
            </>
          )
        }
      </QueryView>
      <WebhookSheet webhook={edited} onClose={() => setEdited(null)} />
    </>
  )
}

function WebhookItem({ webhook, onEdit }: { webhook: WebhookDto; onEdit(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const [isConfirming, setIsConfirming] = useState(false)
  const changed = () => void queryClient.invalidateQueries(trpc.alerts.pathFilter())
  const test = useMutation(trpc.alerts.test.mutationOptions({ onSuccess: changed }))
  const update = useMutation(trpc.alerts.update.mutationOptions({ onSuccess: changed }))
  const remove = useMutation(trpc.alerts.remove.mutationOptions({ onSuccess: changed }))
  const counted = webhook.delivered + webhook.waiting + webhook.gaveUp
  const failed = test.error ?? update.error ?? remove.error
  return (
    <li className="border-t px-5 py-3" data-webhook={webhook.name}>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <span className="font-medium">{webhook.name}</span>
        <span className="font-mono text-xs break-all text-ink-2">{webhook.displayUrl}</span>
        {!webhook.enabled && (
          <span className="inline-flex items-center gap-1.5 text-xs text-ink-3">
            <BellOff size={13} aria-hidden />
            Disabled
          </span>
        )}
        <span className="ml-auto flex items-center gap-1.5">
          <Button
            small
            refused={refused}
            busy={test.isPending}
            onClick={() => test.mutate({ id: webhook.id })}
          >
            <Send size={13} aria-hidden />
            {test.isPending ? 'Sending…' : 'Send test'}
          </Button>
          <ActionMenu
            label={`Actions for ${webhook.name}`}
            actions={[
              { label: 'Edit', icon: <Pencil size={14} aria-hidden />, refused, onSelect: onEdit },
              {
                label: webhook.enabled ? 'Disable' : 'Enable',
                refused,
                onSelect: () => update.mutate({ id: webhook.id, enabled: !webhook.enabled }),
              },
              {
                label: 'Remove',
                danger: true,
                apart: true,
                refused,
                onSelect: () => setIsConfirming(true),
              },
            ]}
          />
        </span>
      </div>
      <p className="mt-1 text-xs text-ink-3">{subscriptionText(webhook)}</p>
      <p className="num mt-1 flex flex-wrap items-center gap-x-3 text-xs text-ink-2">
        {webhook.last === null ? (
          'No deliveries yet'
        ) : (
          <>
            <DeliveryStateView state={webhook.last.state} />
            <span>
              Last delivery <Ago at={webhook.last.lastAttemptAt ?? webhook.last.createdAt} />
              {webhook.last.error !== null && `: ${webhook.last.error}`}
            </span>
            <span className="text-ink-3">
              Last 24 h{counted >= MAX_COUNTED_DELIVERIES && `, newest ${formatCount(counted)}`}:{' '}
              {formatCount(webhook.delivered)} delivered, {formatCount(webhook.waiting)} pending,{' '}
              {formatCount(webhook.gaveUp)} failed
            </span>
          </>
        )}
      </p>
      {test.data && <TestAnswer tested={test.data} />}
      {failed && (
        <p role="alert" className="mt-2 text-xs text-bad">
          {describeFailure(failed).message}
        </p>
      )}
      <Confirm
        open={isConfirming}
        title={`Remove “${webhook.name}”?`}
        action="Remove webhook"
        busy={remove.isPending}
        onConfirm={() =>
          remove.mutate({ id: webhook.id }, { onSuccess: () => setIsConfirming(false) })
        }
        onClose={() => setIsConfirming(false)}
      >
        Pending deliveries of the webhook are dropped, and its secret is deleted.
      </Confirm>
    </li>
  )
}

function subscriptionText(webhook: WebhookDto): string {
  const { severities, runs, signed, createdBy } = webhook
  const selected = selectedMonitors(webhook)
  const groups = MONITOR_GROUPS.map(({ label, monitors }) => {
    const some = monitors.filter((monitor) => selected.includes(monitor))
    if (some.length > 0 && some.length < monitors.length) return some.map(monitorLabel).join(', ')
    return `${some.length === 0 ? 'no' : 'all'} ${label.toLowerCase()}`
  })
  return [
    SEVERITY_CHOICES.find(({ value }) => value === severityChoice(severities))?.label,
    ...groups,
    runs.length === 0 ? 'all runs' : plural(runs.length, 'run'),
    signed ? 'signed' : 'not signed',
    `created by ${createdBy}`,
  ].join(' · ')
}

function TestAnswer({ tested }: { tested: TestedWebhookDto }) {
  const Icon = tested.delivered ? CircleCheck : CircleX
  return (
    <div
      role="status"
      className={`mt-2 rounded-md px-3 py-2 text-xs ${tested.delivered ? 'bg-ok-soft' : 'bg-bad-soft'}`}
    >
      <p className="flex items-center gap-1.5 font-medium">
        <Icon size={14} aria-hidden className={tested.delivered ? 'text-ok' : 'text-bad'} />
        {tested.delivered
          ? `Delivered: HTTP ${tested.status} in ${durationText(tested.latencyMs)}`
          : `Not delivered: ${tested.error}`}
      </p>
      {tested.answer !== null && (
        <pre className="mt-1 overflow-x-auto font-mono text-2xs whitespace-pre-wrap text-ink-2">
          {tested.answer}
        </pre>
      )}
    </div>
  )
}

const PAGE = 25

function DeliveryLog() {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const log = useInfiniteQuery(
    pagesOptions({
      queryKey: trpc.alerts.deliveries.infiniteQueryKey({ limit: PAGE }),
      read: (cursor, signal) => client.alerts.deliveries.query({ limit: PAGE, cursor }, { signal }),
      topics: ['monitors'],
    }),
  )
  return (
    <Section title="Deliveries" note="Last 30 days, newest first">
      <QueryView query={log} skeleton={<TableSkeleton columns={7} rows={4} />}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items)
          if (items.length === 0)
            return (
              <p className="px-5 pb-4 text-xs text-ink-3">No deliveries in the last 30 days.</p>
            )
          return (
            <>
              <Scroll label="Deliveries">
                <table className="grid-table">
                  <ColumnHeads
                    columns={[
                      'State',
                      'Webhook',
                      'Message',
                      { end: 'Attempts' },
                      { end: 'HTTP status' },
                      { end: 'Latency' },
                      'Last error',
                      { end: 'Time' },
                    ]}
                  />
                  <tbody>
                    {items.map((item) => (
                      <tr key={item.id}>
                        <td>
                          <DeliveryStateView state={item.state} />
                        </td>
                        <td className="font-medium">{item.webhook}</td>
                        <td className="max-w-96 truncate" title={item.text}>
                          {item.text}
                        </td>
                        <td className="num end">{formatCount(item.attempts)}</td>
                        <td className="num end">{item.status ?? '–'}</td>
                        <td className="num end">{durationText(item.latencyMs)}</td>
                        <td
                          className="max-w-64 truncate text-ink-2"
                          title={item.error ?? undefined}
                        >
                          {item.error ?? ''}
                        </td>
                        <td className="end text-ink-2">
                          <Ago at={item.lastAttemptAt ?? item.createdAt} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
              <ShowMore query={log}>Load older deliveries</ShowMore>
            </>
          )
        }}
      </QueryView>
    </Section>
  )
}
