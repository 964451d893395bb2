'use client'

import { PageHeader } from '../shell/page-header.tsx'
import { Segmented } from '../ui/field.tsx'
import { useUrl } from '../url/use-url.ts'
import { CompareBatches } from './compare-batches.tsx'
import { CompareRuns } from './compare-runs.tsx'
import { compareUrl } from './compare-url.ts'

/** Two rewards on the same rollouts, or up to eight runs over one another. */
export function ComparePage() {
  const [url, setUrl] = useUrl(compareUrl)
  return (
    <>
      <PageHeader
        title="Compare"
        state={
          <span className="truncate text-ink-3 max-md:hidden">
            {url.mode === 'batches' ? 'two rewards on the same rollouts' : 'runs over their steps'}
          </span>
        }
        actions={
          <Segmented
            label="What is compared"
            value={url.mode}
            options={[
              { value: 'batches', label: 'Batches' },
              { value: 'runs', label: 'Runs' },
            ]}
            onChange={(mode) => {
              if (mode === url.mode) return
              // Each has its own address: of the other nothing stays in it.
              setUrl({ mode, runs: [], hidden: [], first: null, second: null, open: null }, 'push')
            }}
          />
        }
      />
      {url.mode === 'batches' ? (
        <CompareBatches url={url} onChange={setUrl} />
      ) : (
        <CompareRuns url={url} onChange={setUrl} />
      )}
    </>
  )
}
