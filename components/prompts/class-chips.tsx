import {
  PROMPT_CLASS_TEXT,
  PROMPT_CLASSES,
  type PromptClass,
  type PromptCountsDto,
} from '../../server/contract/prompts.ts'
import { formatCount } from '../format/numbers.ts'
import { PromptClassView } from '../ui/status.tsx'

export function ClassChips({
  counts,
  chosen,
  onChoose,
}: {
  counts: PromptCountsDto | undefined
  chosen: PromptClass | null
  onChoose(name: PromptClass | null): void
}) {
  return (
    <fieldset
      aria-label="Class"
      className="flex min-w-0 flex-wrap gap-1.5 max-sm:flex-nowrap max-sm:overflow-x-auto"
    >
      <Chip
        isChosen={chosen === null}
        n={counts?.total}
        title="Prompts of all classes"
        onClick={() => onChoose(null)}
      >
        All
      </Chip>
      {PROMPT_CLASSES.map((name) => (
        <Chip
          key={name}
          isChosen={chosen === name}
          n={counts?.byClass[name]}
          title={PROMPT_CLASS_TEXT[name]}
          onClick={() => onChoose(chosen === name ? null : name)}
        >
          <PromptClassView name={name} />
        </Chip>
      ))}
    </fieldset>
  )
}

function Chip({
  isChosen,
  n,
  title,
  onClick,
  children,
}: {
  isChosen: boolean
  n: number | undefined
  title: string
  onClick(): void
  children: React.ReactNode
}) {
  return (
    <button
      type="button"
      aria-pressed={isChosen}
      title={title}
      onClick={onClick}
      className="inline-flex h-7 shrink-0 items-center gap-2 rounded-md border border-line-strong px-2 text-xs hover:bg-hover aria-pressed:border-accent aria-pressed:bg-selected"
    >
      {children}
      <span className="num font-medium">{formatCount(n)}</span>
    </button>
  )
}
