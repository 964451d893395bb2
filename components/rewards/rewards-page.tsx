'use client'

import { useQuery } from '@tanstack/react-query'
import type { RewardsDto } from '../../server/contract/rewards.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useUrl } from '../url/use-url.ts'
import { ComponentsView } from './components-view.tsx'
import { ImportView } from './import-view.tsx'
import { RegisteredView } from './registered-view.tsx'
import { type RewardView, rewardsUrl } from './rewards-url.ts'
import { TryView } from './try-view.tsx'

const VIEWS: readonly { value: RewardView; label: string }[] = [
  { value: 'registered', label: 'Registered' },
  { value: 'try', label: 'Playground' },
  { value: 'components', label: 'Components' },
  { value: 'import', label: 'Import' },
]

const ABOUT: Record<RewardView, string> = {
  registered: 'Rewards that a batch can use, with their options.',
  try: 'Scores one sample as in a batch and explains the score. Nothing is stored.',
  components: 'The components of composite rewards over the steps of a run.',
  import: 'Converts a verl configuration and reports on every key.',
}

export function RewardsPage() {
  const trpc = useTRPC()
  const [view, setView] = useUrl(rewardsUrl)
  const rewards = useQuery(
    trpc.rewards.list.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  return (
    <>
      <PageHeader title="Rewards" state={rewards.data && <Counts rewards={rewards.data} />} />
      <div className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-1 border-b px-5 py-2">
        <Segmented
          label="View"
          value={view.view}
          options={VIEWS}
          onChange={(next) => setView({ view: next }, 'push')}
        />
        <p className="text-xs text-ink-3">{ABOUT[view.view]}</p>
      </div>
      {view.view === 'import' ? (
        <ImportView />
      ) : view.view === 'components' ? (
        <ComponentsView run={view.run} onRun={(run) => setView({ run })} />
      ) : (
        <QueryView query={rewards} skeleton={<TableSkeleton columns={4} rows={8} />}>
          {(data) =>
            view.view === 'try' ? (
              <TryView rewards={data} sampleId={view.sample} reward={view.reward} />
            ) : (
              <RegisteredView
                rewards={data}
                named={view.named}
                onNamed={(named) => setView({ named })}
                open={view.open}
                onOpen={(open) => setView({ open })}
              />
            )
          }
        </QueryView>
      )}
    </>
  )
}

function Counts({ rewards }: { rewards: RewardsDto }) {
  const { rules, models, functions } = rewards
  const parts = [
    plural(rules.length, 'rule'),
    plural(models.length, 'model'),
    plural(functions.files.length, 'function file'),
  ]
  return <span className="num truncate text-ink-3 max-sm:hidden">{parts.join(' · ')}</span>
}
