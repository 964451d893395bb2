'use client'

import { type FormEvent, type KeyboardEvent, useId, useState } from 'react'
import type { RewardsDto } from '../../server/contract/rewards.ts'
import { formatCount } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { useModifier } from '../shell/use-modifier.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-text.tsx'
import { FieldAbout, TextArea, TextField } from '../ui/field.tsx'
import { Select } from '../ui/select.tsx'
import { TRY_EXAMPLES, type TryExample } from './try-examples.ts'
import { rewardOf, type TryDraft, type TryErrors } from './try-form.prepare.ts'

export function TryForm({
  rewards,
  draft,
  errors,
  busy,
  sampleId,
  loading,
  onChange,
  onExample,
  onLoad,
  onScore,
}: {
  rewards: RewardsDto
  draft: TryDraft
  errors: TryErrors
  busy: boolean
  sampleId: string | null
  loading: { busy: boolean; problem: string | null }
  onChange(part: Partial<TryDraft>): void
  onExample(example: TryExample): void
  onLoad(id: string | null): void
  onScore(): void
}) {
  const modifier = useModifier()
  const refused = useMay('trainer')
  const sources = useId()
  const text = (name: keyof TryDraft) => ({
    value: draft[name] ?? '',
    error: errors[name],
    onChange: (event: { target: { value: string } }) => onChange({ [name]: event.target.value }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onScore()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      onScore()
    }
  }
  return (
    <form onSubmit={submit} onKeyDown={onKeyDown} noValidate aria-label="Sample and reward">
      <div className="space-y-4 px-5 py-4">
        <Beginnings sampleId={sampleId} loading={loading} onExample={onExample} onLoad={onLoad} />
        <TextField
          label="Data source"
          list={sources}
          mono
          hint={draft.reward === null && draft.scorer === '' ? 'Selects the rule.' : undefined}
          {...text('dataSource')}
        />
        <datalist id={sources}>
          {rewards.rules
            .flatMap(({ dataSources }) => dataSources)
            .map((source) => (
              <option key={source} value={source.replace(/\*$/, '')} />
            ))}
        </datalist>
        <TextArea label="Prompt" note="Text, or messages as JSON" rows={3} {...text('prompt')} />
        <TextArea
          label="Response"
          note={`${formatCount(draft.response.length)} characters`}
          rows={6}
          mono
          {...text('response')}
        />
        <div className="grid gap-4 sm:grid-cols-[minmax(0,1fr)_132px]">
          <TextArea
            label="Ground truth"
            note="Text or JSON"
            rows={1}
            mono
            {...text('groundTruth')}
          />
          <TextField
            label="Response tokens"
            inputMode="numeric"
            placeholder="Unknown"
            {...text('responseLength')}
          />
        </div>
        <details className="group" open={draft.extraInfo !== '' || undefined}>
          <summary className="text-xs text-ink-3 hover:text-ink">Extra info</summary>
          <div className="mt-2">
            <TextArea
              label="Extra info"
              note="A JSON object, available as {extra.name} in judge templates"
              rows={3}
              mono
              {...text('extraInfo')}
            />
          </div>
        </details>
      </div>
      <RewardFields rewards={rewards} draft={draft} errors={errors} onChange={onChange} />
      <footer className="sticky bottom-0 z-10 flex items-center gap-3 border-t bg-surface px-5 py-3">
        <Button type="submit" variant="primary" refused={refused} busy={busy}>
          Score sample
          <kbd aria-hidden className="font-mono text-2xs">
            {modifier}↵
          </kbd>
        </Button>
        <span className="text-xs text-ink-3">Nothing is stored.</span>
        {Object.keys(errors).length > 0 && (
          <span className="ml-auto text-xs text-bad">Fix highlighted fields.</span>
        )}
      </footer>
    </form>
  )
}

function Beginnings({
  sampleId,
  loading,
  onExample,
  onLoad,
}: {
  sampleId: string | null
  loading: { busy: boolean; problem: string | null }
  onExample(example: TryExample): void
  onLoad(id: string | null): void
}) {
  const [id, setId] = useState(sampleId ?? '')
  const [wrong, setWrong] = useState(false)
  const load = () => {
    const wanted = id.trim()
    const isId = /^b\d{1,18}-\d{1,9}$/.test(wanted)
    setWrong(!isId)
    if (isId) onLoad(wanted)
  }
  const error = wrong ? 'Enter a sample ID, such as b12-3.' : loading.problem
  return (
    <div>
      <p className="mb-1 text-xs font-medium text-ink-2">Example</p>
      <div className="flex flex-wrap gap-1.5">
        {TRY_EXAMPLES.map((example) => (
          <Button key={example.name} small onClick={() => onExample(example)}>
            {example.name}
          </Button>
        ))}
        <span className="flex items-center gap-1.5">
          <input
            aria-label="Stored sample ID"
            aria-invalid={error ? true : undefined}
            placeholder="Sample ID, such as b12-3"
            value={id}
            onChange={(event) => setId(event.target.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.ctrlKey || event.metaKey) return
              event.preventDefault()
              load()
            }}
            className="h-7 w-[148px] rounded-md border border-line-strong bg-surface px-2 font-mono text-xs placeholder:font-sans placeholder:text-ink-3 aria-invalid:border-bad"
          />
          <Button small busy={loading.busy} onClick={load}>
            Load
          </Button>
        </span>
      </div>
      <FieldAbout error={error} />
    </div>
  )
}

function RewardFields({
  rewards,
  draft,
  errors,
  onChange,
}: {
  rewards: RewardsDto
  draft: TryDraft
  errors: TryErrors
  onChange(part: Partial<TryDraft>): void
}) {
  const asJson = draft.reward !== null
  const spec = JSON.stringify(rewardOf(draft), null, 2)
  return (
    <fieldset className="min-w-0 border-t px-5 py-4">
      <legend className="sr-only">Reward</legend>
      <div className="mb-3 flex items-center gap-2">
        <p className="text-sm font-semibold">Reward</p>
        <span className="ml-auto flex items-center">
          <CopyButton text={spec} label="Copy" />
          <Button small variant="quiet" onClick={() => onChange({ reward: asJson ? null : spec })}>
            {asJson ? 'Use fields' : 'Edit as JSON'}
          </Button>
        </span>
      </div>
      {asJson ? (
        <TextArea
          label="Reward as JSON"
          note="Same format as “reward” in batches.submit"
          rows={8}
          mono
          value={draft.reward ?? ''}
          error={errors.reward}
          onChange={(event) => onChange({ reward: event.target.value })}
        />
      ) : (
        <div className="space-y-4">
          <div className="grid gap-4 sm:grid-cols-2">
            <Select
              label="Scored by"
              value={draft.scorer}
              searchable
              options={[
                { value: '', label: 'Data source’s rule' },
                ...rewards.rules.map(({ name }) => ({
                  group: 'Rules',
                  value: `rule:${name}`,
                  label: name,
                })),
                ...rewards.models.map(({ model, kind }) => ({
                  group: 'Models',
                  value: `${kind === 'generative' ? 'judge' : 'model'}:${model}`,
                  label: kind === 'generative' ? `${model} (judge)` : model,
                })),
              ]}
              placeholder={`${draft.scorer.slice(draft.scorer.indexOf(':') + 1)}, not registered`}
              onChange={(scorer) => onChange({ scorer })}
            />
            <Select
              label="Reward manager"
              value={draft.manager}
              options={rewards.managers.map(({ name }) => name)}
              onChange={(manager) => onChange({ manager })}
            />
            {draft.scorer.startsWith('judge:') && (
              <Select
                label="Judge template"
                value={draft.judge}
                searchable
                options={rewards.judges.map(({ name }) => name)}
                onChange={(judge) => onChange({ judge })}
              />
            )}
          </div>
          <TextArea
            label="Options"
            note="reward.kwargs, a JSON object"
            rows={2}
            mono
            placeholder='{"method": "flexible"}'
            value={draft.kwargs}
            error={errors.kwargs}
            onChange={(event) => onChange({ kwargs: event.target.value })}
          />
        </div>
      )}
    </fieldset>
  )
}
