'use client'

import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { columnsText, EXPORT_PATH, EXPORTED_TEXT_COLUMNS } from '../../server/contract/export.ts'
import { type SampleFilter, writeSampleFilter } from '../../server/contract/sample-filter.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Checkbox, Choices, Segmented } from '../ui/field.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { SheetFoot } from '../ui/sheet-form.tsx'
import { useErrorFocus } from '../ui/use-error-focus.ts'
import { BASE_PATH } from '../url/base-path.ts'
import { DEFAULT_EXPORT_COLUMNS, exportColumns } from './export-columns.ts'
import { downloadExport, MAX_BUFFERED_BYTES, type PageExportFormat } from './export-download.ts'
import { MatchCount } from './match-count.tsx'
import type { SampleColumn } from './sample-columns.tsx'

export function ExportSheet({
  open,
  filter,
  columns,
  onClose,
}: {
  open: boolean
  filter: SampleFilter
  columns: readonly SampleColumn[]
  onClose(): void
}) {
  return (
    <Sheet open={open} onClose={onClose} title="Export samples">
      {open && <ExportForm filter={filter} columns={columns} onClose={onClose} />}
    </Sheet>
  )
}

type State =
  | { is: 'idle' }
  // `rows` is null for a Parquet file, because its rows are not counted.
  | { is: 'running'; rows: number | null; bytes: number }
  | { is: 'done'; rows: number | null; bytes: number; name: string }
  | { is: 'stopped' }
  | { is: 'failed'; message: string }

function ExportForm({
  filter,
  columns,
  onClose,
}: {
  filter: SampleFilter
  columns: readonly SampleColumn[]
  onClose(): void
}) {
  const trpc = useTRPC()
  const count = useQuery(trpc.samples.count.queryOptions(filter))
  const [format, setFormat] = useState<PageExportFormat>('csv')
  const [which, setWhich] = useState<'shown' | 'all'>('shown')
  const [texts, setTexts] = useState(false)
  const [isSafe, setIsSafe] = useState(true)
  const [state, setState] = useState<State>({ is: 'idle' })
  const stop = useRef<AbortController | null>(null)
  const chosen = new Set([
    ...(which === 'shown' ? exportColumns(columns) : DEFAULT_EXPORT_COLUMNS),
    ...(texts ? EXPORTED_TEXT_COLUMNS : []),
  ])
  const query = writeSampleFilter(filter)
  const isRunning = state.is === 'running'
  const { place, submitted } = useErrorFocus<HTMLDivElement>(isRunning)
  const everything = query.size === 0
  query.set('format', format)
  query.set('columns', columnsText([...chosen]))
  // By default, the service refuses an export if retention removed texts or samples. An export without text columns
  // does not need the texts, so `kept` exports the remaining data.
  if (!texts) query.set('texts', 'kept')
  if (format === 'csv' && isSafe) query.set('safe', 'spreadsheet')
  const address = `${BASE_PATH}${EXPORT_PATH}?${query}`
  const total = count.data?.exact ? count.data.samples : null
  const begin = async () => {
    const controller = new AbortController()
    stop.current = controller
    setState({ is: 'running', rows: null, bytes: 0 })
    try {
      const done = await downloadExport(address, format, controller.signal, (rows, bytes) =>
        setState({ is: 'running', rows, bytes }),
      )
      setState({ is: 'done', ...done })
    } catch (error) {
      if (controller.signal.aborted) {
        setState({ is: 'stopped' })
      } else setState({ is: 'failed', message: (error as Error).message })
    }
  }
  return (
    <div ref={place} className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <MatchCount query={count}>
          {({ exact, samples, searchedSamples }) => (
            <p className="num text-ink-2" data-export-count>
              {exact
                ? `${plural(samples, 'matching sample')} will be exported, ordered by batch and index.`
                : `${formatCount(samples)} of the newest ${plural(searchedSamples, 'candidate')} match. All matching samples will be exported, ordered by batch and index.`}
            </p>
          )}
        </MatchCount>
        {everything && (
          <p className="text-warn">No filter is set. Select a run or a batch first.</p>
        )}
        <Segmented
          label="Format"
          value={format}
          options={[
            { value: 'csv', label: 'CSV' },
            { value: 'jsonl', label: 'JSON Lines' },
            { value: 'parquet', label: 'Parquet' },
          ]}
          onChange={setFormat}
        />
        <Choices
          legend="Columns"
          name="export-columns"
          value={which}
          options={[
            {
              value: 'shown',
              label: 'Table columns',
              about: chosenWords(exportColumns(columns)),
            },
            {
              value: 'all',
              label: 'All',
              about:
                'Includes all reward extra info, waiting times, servers and annotations, but no texts.',
            },
          ]}
          onChange={setWhich}
        />
        <Checkbox
          label="Include all texts"
          about="Prompt, response, ground truth and extra info. The file can be imported again."
          checked={texts}
          onChange={setTexts}
        />
        {format === 'csv' && (
          <Checkbox
            label="Safe for spreadsheets"
            about="Puts ' before text that a spreadsheet would evaluate as a formula. Clear this option if you will import the file again."
            checked={isSafe}
            onChange={setIsSafe}
          />
        )}
        <p className="text-xs text-ink-3">
          The page exports at most {Math.round(MAX_BUFFERED_BYTES / 2 ** 20)} MiB. For larger
          exports, use the{' '}
          <a
            href={everything ? undefined : address}
            download
            className="text-accent hover:underline"
          >
            direct download
          </a>{' '}
          or <span className="font-mono">rewardops export</span>
          {format === 'parquet' ? '' : ', which can resume'}.
        </p>
        <div role="status" aria-live="polite">
          {state.is === 'running' && (
            <Progress rows={state.rows} bytes={state.bytes} total={total} />
          )}
          {state.is === 'done' && (
            <p className="num text-ok" data-export-done={state.rows ?? ''}>
              {state.rows !== null && `${plural(state.rows, 'row')} in `}
              {state.name}, {sizeText(state.bytes)}.
            </p>
          )}
          {state.is === 'stopped' && <p className="num text-ink-2">Stopped. No file was saved.</p>}
        </div>
        {state.is === 'failed' && (
          <p role="alert" className="text-bad">
            {state.message}
          </p>
        )}
      </div>
      <SheetFoot>
        {isRunning ? (
          <Button onClick={() => stop.current?.abort()}>Stop</Button>
        ) : (
          <Button onClick={onClose}>Close</Button>
        )}
        <Button
          variant="primary"
          busy={isRunning}
          disabled={everything}
          onClick={() => {
            submitted()
            void begin()
          }}
        >
          Export
        </Button>
      </SheetFoot>
    </div>
  )
}

function chosenWords(names: readonly string[]): string {
  const shown = names.slice(0, 8).join(', ')
  return names.length > 8 ? `${shown} and ${names.length - 8} more` : shown
}

function Progress({
  rows,
  bytes,
  total,
}: {
  rows: number | null
  bytes: number
  total: number | null
}) {
  const percent =
    rows === null || total === null || total === 0 ? null : Math.min(100, (rows / total) * 100)
  return (
    <>
      <SegmentBar
        role="progressbar"
        aria-label="Rows exported"
        aria-valuemin={0}
        {...(percent === null
          ? {}
          : { 'aria-valuemax': total ?? 0, 'aria-valuenow': Math.min(rows ?? 0, total ?? 0) })}
        segments={[
          {
            ...{ key: 'exported', share: (percent ?? 100) / 100 },
            className: `bg-accent quick transition-[width] ${percent === null ? 'opacity-40' : ''}`,
          },
        ]}
      />
      <p className="num mt-1.5 text-xs text-ink-2">
        {rows !== null &&
          `${formatCount(rows)}${total === null ? '' : ` of ${formatCount(total)}`} rows, `}
        {sizeText(bytes)}
      </p>
    </>
  )
}

function sizeText(bytes: number): string {
  if (bytes < 1 << 10) return `${bytes} B`
  if (bytes < 1 << 20) return `${(bytes / 2 ** 10).toFixed(1)} KiB`
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`
}
