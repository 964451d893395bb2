'use client'

import { PageHeader } from '../shell/page-header.tsx'
import { Segmented } from '../ui/field.tsx'
import { useUrl } from '../url/use-url.ts'
import { CompareBatches } from './compare-batches.tsx'
import { CompareRuns } from './compare-runs.tsx'
import { compareUrl } from './compare-url.ts'

export function ComparePage() {
  const [url, setUrl] = useUrl(compareUrl)
  return (
    <>
      <PageHeader
        title="Compare"
        state={
          <span className="truncate text-ink-3 max-md:hidden">
            {url.mode === 'batches' ? 'Two rewards on the same rollouts' : 'Runs over steps'}
          </span>
        }
        actions={
          <Segmented
            label="Compare"
            value={url.mode}
            options={[
              { value: 'batches', label: 'Batches' },
              { value: 'runs', label: 'Runs' },
            ]}
            onChange={(mode) => {
              if (mode === url.mode) return
              // Each mode has its own URL state; switching drops the state of the previous mode.
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
