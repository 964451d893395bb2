import type { inferRouterOutputs } from '@trpc/server'
import type { ReactNode } from 'react'
import type { AppRouter } from '../../server/api/root.ts'
import { formatScore, plural } from '../format/numbers.ts'
import { JsonValue } from '../rollouts/raw-text.tsx'

export type Tried = inferRouterOutputs<AppRouter>['rewards']['try']
export type Step = Tried['steps'][number]
export type End = Tried['end']

export function TraceItem({
  title,
  value,
  quiet,
  children,
}: {
  title: ReactNode
  value?: ReactNode
  /** Whether the step is muted, because it scores nothing. */
  quiet?: boolean
  children: ReactNode
}) {
  return (
    <li className="group/step relative py-3.5 pl-5">
      <span
        aria-hidden
        className="absolute top-0 bottom-0 -left-px w-px bg-line group-last/step:bottom-auto group-last/step:h-5"
      />
      <span
        aria-hidden
        className={`absolute top-[20px] -left-[4.5px] size-2 rounded-full border-2 ${quiet ? 'border-line-strong bg-surface' : 'border-accent bg-surface'}`}
      />
      <div className="mb-1 flex items-baseline gap-3">
        <h3 className="text-sm">{title}</h3>
        {value !== undefined && (
          <span className="num ml-auto min-w-0 truncate text-right font-mono text-xs text-ink-2">
            {value}
          </span>
        )}
      </div>
      {children}
    </li>
  )
}

export function EndText({ end }: { end: End }) {
  return end.ok ? (
    formatScore(end.score)
  ) : (
    <span className="inline-flex items-center gap-1.5 text-bad">
      <span className="hatch size-2.5 rounded-[2px]" aria-hidden />
      {end.reason}
    </span>
  )
}

export function EndFailure({ end }: { end: End }) {
  return end.ok ? null : <p className="mt-1.5 text-xs break-words text-bad">{end.detail}</p>
}

export function Pairs({ pairs }: { pairs: [string, unknown][] }) {
  return (
    <dl className="mt-1.5 grid grid-cols-[minmax(72px,auto)_minmax(0,1fr)] gap-x-5 gap-y-0.5">
      {pairs.map(([key, value]) => (
        <div key={key} className="contents">
          <dt className="font-mono text-xs leading-5 break-all text-ink-3">{key}</dt>
          <dd className="min-w-0">
            <Compact value={value} />
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Compact({ value }: { value: unknown }) {
  const json = typeof value === 'object' && value !== null ? JSON.stringify(value) : null
  return json !== null && json.length <= 100 ? (
    <span className="font-mono text-xs leading-5 break-words">{json}</span>
  ) : (
    <JsonValue value={value} />
  )
}

/** The options in use, collapsed, because most are defaults. */
export function OptionsUsed({ options }: { options: Record<string, unknown> }) {
  const pairs = Object.entries(options)
  if (pairs.length === 0) return null
  return (
    <details className="mt-2">
      <summary className="text-xs text-ink-3 hover:text-ink">
        {plural(pairs.length, 'option')} in use
      </summary>
      <Pairs pairs={pairs} />
    </details>
  )
}
