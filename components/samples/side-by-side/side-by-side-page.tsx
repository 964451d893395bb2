'use client'

import { Columns2, X } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { TextViewSwitch } from '../../rollouts/response-text.tsx'
import { useKeys } from '../../shell/keys.tsx'
import { PageHeader } from '../../shell/page-header.tsx'
import { PageLink } from '../../shell/page-link.tsx'
import { Button, buttonClass } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useUrl } from '../../url/use-url.ts'
import { SideBySide, useSample } from './side-by-side.tsx'
import { type Side, sideBySideView } from './side-by-side-url.ts'

export function SideBySidePage() {
  const [view, setView] = useUrl(sideBySideView)
  const router = useRouter()
  const { left, right, side, diff } = view
  const samples = { left: useSample(left), right: useSample(right) }
  const open = (on: Side, id: string, how: 'push' | 'replace') => {
    setView(on === 'left' ? { left: id, side: on } : { right: id, side: on }, how)
  }
  const walk = (by: 1 | -1) => {
    // The state is read from the address bar, because keys may be pressed faster than the page renders.
    const now = sideBySideView.parse(new URLSearchParams(location.search))
    const siblings = samples[now.side].data?.siblings ?? []
    const at = siblings.findIndex(({ id }) => id === now[now.side])
    const next = siblings[at + by]
    if (at >= 0 && next !== undefined) open(now.side, next.id, 'replace')
  }
  const back = left === null ? '/samples' : `/samples?batch=${left.split('-')[0]}&sample=${left}`
  useKeys([
    { key: 'j', label: 'Next sample in group', group: 'Side by side', run: () => walk(1) },
    { key: 'k', label: 'Previous sample in group', group: 'Side by side', run: () => walk(-1) },
    {
      key: '[',
      label: 'Select left side',
      group: 'Side by side',
      run: () => setView({ side: 'left' }),
    },
    {
      key: ']',
      label: 'Select right side',
      group: 'Side by side',
      run: () => setView({ side: 'right' }),
    },
    {
      key: 'd',
      label: 'Highlight differences',
      group: 'Side by side',
      run: () => setView({ diff: !diff }),
    },
    {
      key: 'Escape',
      label: 'Back to samples',
      group: 'Side by side',
      run: () => router.push(back),
    },
  ])
  return (
    <div className="flex h-dvh flex-col">
      <PageHeader title="Side by side" parent={{ href: '/samples', label: 'Samples' }} />
      {left === null || right === null ? (
        <Empty
          icon={Columns2}
          title="Select two samples"
          actions={
            <PageLink href={back} className={buttonClass('primary')}>
              View samples
            </PageLink>
          }
        >
          Open a sample and press C to see it next to another sample of its group.
        </Empty>
      ) : (
        <>
          <div className="flex min-h-11 flex-wrap items-center gap-3 border-b px-5 py-1.5">
            <TextViewSwitch />
            <label className="flex items-center gap-2 text-xs text-ink-2">
              <input
                type="checkbox"
                checked={diff}
                onChange={() => setView({ diff: !diff })}
                className="size-3.5 accent-(--accent-fill)"
              />
              Highlight differences
            </label>
            <span className="ml-auto text-xs text-ink-3 max-md:hidden">
              <Key>J</Key> <Key>K</Key> step through the group, <Key>[</Key> <Key>]</Key> select the
              side
            </span>
            <Button
              small
              variant="quiet"
              onClick={() => router.push(back)}
              className="max-md:ml-auto"
            >
              <X size={13} aria-hidden />
              Close
            </Button>
          </div>
          <SideBySide
            left={left}
            right={right}
            side={side}
            diff={diff}
            onOpen={(on, id) => open(on, id, 'replace')}
            onSide={(on) => setView({ side: on })}
          />
        </>
      )}
    </div>
  )
}

function Key({ children }: { children: string }) {
  return <kbd className="rounded-[3px] border bg-sunken px-1 font-mono text-2xs">{children}</kbd>
}
