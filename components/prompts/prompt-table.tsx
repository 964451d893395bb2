'use client'

import type { PromptRowDto } from '../../server/contract/prompts.ts'
import { SourceName } from '../batches/batch-cells.tsx'
import { formatCount, percentText } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { PromptClassView } from '../ui/status.tsx'
import { ChangeText, PromptName, RecentRates, rateLabel, rateText } from './prompt-cells.tsx'
import { promptHref } from './prompts-url.ts'

export function PromptTable({
  run,
  split,
  prompts,
}: {
  run: string
  split: 'train' | 'val'
  prompts: readonly PromptRowDto[]
}) {
  const rate = rateLabel(prompts)
  // The sparklines of all rows have room for the same number of visits.
  const slots = Math.max(2, ...prompts.map(({ recent }) => recent.length))
  return (
    <Scroll label="Prompts">
      <table className="grid-table min-w-[1080px] table-fixed">
        <ColumnHeads
          columns={[
            { start: 'Class', className: 'w-32' },
            'Prompt',
            { start: 'Data source', className: 'w-40' },
            {
              end: 'Visits',
              className: 'w-16',
              title: 'Number of groups of this prompt; only the newest 256 count',
            },
            {
              end: rate,
              className: rate.length > 10 ? 'w-34' : 'w-20',
              title: `${rate} over all visits`,
            },
            { end: 'Last two', className: 'w-20', title: `${rate} of the last two visits` },
            {
              end: 'Change',
              className: 'w-28',
              title: `${rate} of the last two visits minus that of the earlier ones`,
            },
            {
              end: 'Varied',
              className: 'w-20',
              title:
                'Share of visits whose samples have different scores; other visits give no signal',
            },
            { end: 'Last step', className: 'w-20' },
            { start: 'Recent visits', className: 'w-34', title: `${rate} of up to 32 visits` },
          ]}
        />
        <tbody>
          {prompts.map((prompt) => (
            <tr key={prompt.key} data-prompt={prompt.key}>
              <td>
                <PromptClassView name={prompt.class} />
              </td>
              <td className="truncate">
                <PageLink
                  href={promptHref(run, split, prompt.key)}
                  title={prompt.preview}
                  className="hover:underline"
                >
                  <PromptName prompt={prompt} />
                </PageLink>
              </td>
              <td>
                <SourceName name={prompt.dataSource} />
              </td>
              <td className="num end">{formatCount(prompt.visits)}</td>
              <td className="num end">{rateText(prompt.passRate, prompt.mean)}</td>
              <td className="num end font-medium">
                {rateText(prompt.recentPassRate, prompt.recentMean)}
              </td>
              <td className="num end">
                <ChangeText prompt={prompt} />
              </td>
              <td className="num end">{percentText(prompt.variedShare)}</td>
              <td className="num end">{formatCount(prompt.lastStep)}</td>
              <td>
                <span className="block h-[22px]">
                  <RecentRates prompt={prompt} slots={slots} />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}
