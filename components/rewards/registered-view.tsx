'use client'

import { ChevronRight, FlaskConical } from 'lucide-react'
import { type ReactNode, useId } from 'react'
import type {
  FunctionFileDto,
  JudgeDto,
  ManagerDto,
  OptionDto,
  RewardModelDto,
  RewardsDto,
  RuleDto,
} from '../../server/contract/rewards.ts'
import type { ServerState } from '../../server/contract/servers.ts'
import { formatBytes, plural, quantityText } from '../format/numbers.ts'
import { RolloutText } from '../rollouts/raw-text.tsx'
import { ServerName } from '../servers/server-cells.tsx'
import { engineName } from '../servers/server-words.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { buttonClass } from '../ui/button.tsx'
import { CopyButton, CopyText } from '../ui/copy-text.tsx'
import { FilterLine, fitsFilter } from '../ui/filter-field.tsx'
import { Section } from '../ui/section.tsx'
import { ServerStateView } from '../ui/status.tsx'
import { tryHref } from './rewards-url.ts'

interface Opening {
  open: string | null
  onOpen(open: string | null): void
}

export function RegisteredView({
  rewards,
  named,
  onNamed,
  open,
  onOpen,
}: {
  rewards: RewardsDto
  /** The filter: part of a name, alias, data source or exported function. */
  named: string
  onNamed(named: string): void
} & Opening) {
  const { functions } = rewards
  const rules = rewards.rules.filter((rule) => fitsFilter(named, rule.name, ...rule.dataSources))
  const managers = rewards.managers.filter((each) => fitsFilter(named, each.name, ...each.aliases))
  const judges = rewards.judges.filter((judge) => fitsFilter(named, judge.name))
  const models = rewards.models.filter(({ model }) => fitsFilter(named, model))
  const files = functions.files.filter((file) =>
    fitsFilter(named, file.path, ...(file.exports ?? [])),
  )
  const shown = [rules, managers, judges, models, files].reduce(
    (sum, { length }) => sum + length,
    0,
  )
  const item = (kind: string, name: string) => {
    const id = `${kind}:${name}`
    return { open: open === id, onToggle: () => onOpen(open === id ? null : id) }
  }
  return (
    <div className="pb-10">
      <FilterLine
        label="Name or data source"
        value={named}
        shown={shown}
        total={
          rewards.rules.length +
          rewards.managers.length +
          rewards.judges.length +
          rewards.models.length +
          functions.files.length
        }
        onChange={onNamed}
      />
      {named !== '' && shown === 0 && <p className="px-5 py-4 text-ink-2">No matching entries.</p>}
      {rules.length > 0 && (
        <Section title="Rules" note={`${rules.length}, selected by data source or by name`}>
          <RegisteredList>
            {rules.map((rule) => (
              <Rule key={rule.name} rule={rule} {...item('rule', rule.name)} />
            ))}
          </RegisteredList>
        </Section>
      )}
      {managers.length > 0 && (
        <Section title="Managers" note={`${managers.length}, each wraps a scorer`}>
          <RegisteredList>
            {managers.map((manager) => (
              <Manager key={manager.name} manager={manager} {...item('manager', manager.name)} />
            ))}
          </RegisteredList>
        </Section>
      )}
      {judges.length > 0 && (
        <Section title="Judge templates" note={`${judges.length}, for generative models`}>
          <RegisteredList>
            {judges.map((judge) => (
              <Judge key={judge.name} judge={judge} {...item('judge', judge.name)} />
            ))}
          </RegisteredList>
        </Section>
      )}
      {(named === '' || models.length > 0) && (
        <Section title="Reward models" note={plural(models.length, 'model')}>
          {models.length === 0 ? (
            <Nothing>
              No server is registered. To use a reward model,{' '}
              <PageLink href="/servers?register=1" className="text-accent hover:underline">
                register a server
              </PageLink>
              , and name its model in the reward of a batch.
            </Nothing>
          ) : (
            <RegisteredList>
              {models.map((model) => (
                <Model key={model.model} model={model} {...item('model', model.model)} />
              ))}
            </RegisteredList>
          )}
        </Section>
      )}
      {(named === '' || files.length > 0) && (
        <Section title="Functions" note={plural(files.length, 'file')}>
          {files.length === 0 ? (
            <NoFunctions folder={functions.folder} exists={functions.exists} />
          ) : (
            <RegisteredList>
              {files.map((file) => (
                <FunctionFile key={file.path} file={file} {...item('function', file.path)} />
              ))}
            </RegisteredList>
          )}
          {functions.hasMore && (
            <p className="px-5 py-2 text-xs text-ink-3">
              Only the first {functions.files.length} files, sorted by path, are shown.
            </p>
          )}
        </Section>
      )}
    </div>
  )
}

interface Toggle {
  open: boolean
  onToggle(): void
}

function Rule({ rule, ...toggle }: { rule: RuleDto } & Toggle) {
  const { name, title, dataSources, callsService, options } = rule
  return (
    <RegisteredItem
      name={name}
      title={title}
      facts={
        dataSources.length === 0 ? (
          <span className="text-ink-3">Selected by name only</span>
        ) : (
          <span className="font-mono break-words">{dataSources.join(', ')}</span>
        )
      }
      end={callsService ? 'Runs in a sandbox' : plural(options.length, 'option')}
      {...toggle}
    >
      <OptionTable of={name} options={options} />
      <Actions reward={{ function: { name } }} />
    </RegisteredItem>
  )
}

function Manager({ manager, ...toggle }: { manager: ManagerDto } & Toggle) {
  const { name, aliases, description, options } = manager
  return (
    <RegisteredItem
      name={name}
      title={aliases.length > 0 ? `Also ${aliases.join(', ')}` : undefined}
      facts={description}
      end={plural(options.length, 'option')}
      {...toggle}
    >
      <OptionTable of={name} options={options} />
      <Actions reward={{ manager: name }} />
    </RegisteredItem>
  )
}

function Judge({ judge, ...toggle }: { judge: JudgeDto } & Toggle) {
  const { name, kind, turns, parser, votes, temperature, maxTokens } = judge
  const options = Object.entries(parser.options)
  return (
    <RegisteredItem
      name={name}
      title={kind === 'pair' ? 'Compares two responses' : 'Judges one response'}
      facts={
        <>
          Parser <span className="font-mono">{parser.kind}</span>
          {options.length > 0 && (
            <span className="font-mono text-ink-3">
              {' '}
              {options.map(([key, value]) => `${key} ${JSON.stringify(value)}`).join(', ')}
            </span>
          )}
        </>
      }
      end={plural(votes.k, 'vote')}
      {...toggle}
    >
      <ol className="space-y-2">
        {turns.map((turn, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: turns of a template do not move
          <li key={at}>
            <p className="mb-0.5 text-2xs text-ink-3">{turn.role}</p>
            <RolloutText text={turn.content} maxChars={1_600} />
          </li>
        ))}
      </ol>
      <p className="num mt-2 text-xs text-ink-3">
        Temperature {temperature}, at most {maxTokens} tokens
      </p>
    </RegisteredItem>
  )
}

function Model({ model, ...toggle }: { model: RewardModelDto } & Toggle) {
  const { kind, servers } = model
  const ready = servers.filter(({ state }) => state === 'ready').length
  return (
    <RegisteredItem
      name={model.model}
      title={
        kind === 'generative'
          ? 'Generative: used with a judge template'
          : 'Discriminative: returns scores'
      }
      facts={`${ready} of ${plural(servers.length, 'server')} ready`}
      end={[...new Set(servers.map(({ engine }) => engineName(engine)))].join(', ')}
      {...toggle}
    >
      <ul className="space-y-1">
        {servers.map((server) => (
          <li key={server.name} className="flex flex-wrap items-center gap-x-4">
            <ServerName name={server.name} />
            <ServerStateView server={{ state: server.state as ServerState }} />
            <span className="text-xs text-ink-3">
              {engineName(server.engine)} {server.version}
            </span>
          </li>
        ))}
      </ul>
      <Actions
        reward={
          kind === 'generative'
            ? { model: model.model, judge: 'rating-1-10' }
            : { model: model.model }
        }
      />
    </RegisteredItem>
  )
}

function FunctionFile({ file, ...toggle }: { file: FunctionFileDto } & Toggle) {
  const { path, hash, problem, bytes, changedAt, exports } = file
  return (
    <RegisteredItem
      name={path}
      title={
        <>
          Changed <Ago at={changedAt} />
        </>
      }
      facts={
        exports === null ? (
          'Too large to inspect'
        ) : exports.length === 0 ? (
          <span className="text-ink-3">No exports</span>
        ) : (
          <span className="font-mono break-words">{exports.join(', ')}</span>
        )
      }
      end={quantityText(formatBytes(bytes))}
      {...toggle}
    >
      {problem !== null && <p className="text-xs break-words text-bad">{problem}</p>}
      {hash !== null && (
        <p className="text-xs text-ink-2">
          Version <CopyText text={hash} className="text-xs" />
          <span className="text-ink-3">
            of the current file and its imports. Each sample stores the version that scored it.
          </span>
        </p>
      )}
      <Actions
        reward={{
          function: {
            path,
            ...(exports?.[0] === undefined || exports[0] === 'default' ? {} : { name: exports[0] }),
          },
        }}
      />
    </RegisteredItem>
  )
}

function Actions({ reward }: { reward: object }) {
  return (
    <div className="mt-3 flex flex-wrap items-center gap-2">
      <PageLink href={tryHref(reward)} className={buttonClass('plain', true)}>
        <FlaskConical size={13} aria-hidden />
        Try it
      </PageLink>
      <CopyButton text={JSON.stringify(reward)} label="Copy reward JSON" />
    </div>
  )
}

function Nothing({ children }: { children: ReactNode }) {
  return <p className="max-w-[70ch] border-y px-5 py-4 text-ink-2">{children}</p>
}

function NoFunctions({ folder, exists }: { folder: string | null; exists: boolean }) {
  return (
    <Nothing>
      {exists
        ? 'The functions folder has no TypeScript or JavaScript files'
        : 'The functions folder does not exist'}
      {folder !== null && (
        <>
          : <CopyText text={folder} maxChars={60} className="text-xs" />
        </>
      )}{' '}
      (REWARDOPS_FUNCTIONS_DIR). Add a module there and name its path in{' '}
      <span className="font-mono text-xs">reward.function</span>. To run a Python function, start{' '}
      <span className="font-mono text-xs">rewardops serve-reward my_reward.py:compute_score</span>.
    </Nothing>
  )
}

const COLUMNS = 'md:grid-cols-[200px_170px_110px_minmax(0,1fr)]'

function OptionTable({ of, options }: { of: string; options: readonly OptionDto[] }) {
  if (options.length === 0) {
    return <p className="text-xs text-ink-3">No options.</p>
  }
  return (
    <div className="overflow-hidden rounded-md border text-xs">
      <div className={`hidden border-b text-ink-3 md:grid ${COLUMNS}`} aria-hidden>
        {['Option', 'Type', 'Default', 'Description'].map((head) => (
          <span key={head} className="px-3 py-1.5">
            {head}
          </span>
        ))}
      </div>
      <ul aria-label={`Options of ${of}`}>
        {options.map(({ name, type, choices, defaultJson, description }) => (
          <li
            key={name}
            className={`grid gap-x-3 px-3 py-1.5 not-last:border-b max-md:grid-cols-[minmax(0,1fr)_auto] md:gap-x-0 md:px-0 ${COLUMNS}`}
          >
            <span className="font-mono [overflow-wrap:anywhere] md:px-3">{name}</span>
            <span className="text-ink-2 max-md:order-last max-md:col-span-2 md:px-3">
              {choices === null ? type : <span className="font-mono">{choices.join(' | ')}</span>}
            </span>
            <span className="font-mono max-md:text-right md:px-3">
              {defaultJson === null ? (
                <span className="font-sans text-ink-3">Required</span>
              ) : (
                defaultJson
              )}
            </span>
            <span className="text-ink-2 max-md:col-span-2 md:px-3">{description}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

function RegisteredItem({
  name,
  title,
  facts,
  end,
  open,
  onToggle,
  children,
}: {
  name: string
  title?: ReactNode
  facts: ReactNode
  end?: ReactNode
  open: boolean
  onToggle(): void
  children: ReactNode
}) {
  const id = useId()
  return (
    <li className="border-t" data-entry={name}>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={onToggle}
        className="grid w-full grid-cols-[14px_minmax(0,1fr)_auto] items-baseline gap-x-3 gap-y-0.5 px-5 py-2 text-left hover:bg-hover md:grid-cols-[14px_minmax(0,260px)_minmax(0,1fr)_auto]"
      >
        <ChevronRight
          size={14}
          aria-hidden
          className={`quick relative top-[3px] text-ink-3 transition-transform ${open ? 'rotate-90' : ''}`}
        />
        <span className="min-w-0">
          <span className="block truncate font-mono text-xs leading-5 font-medium">{name}</span>
          {title && <span className="block text-xs text-ink-3">{title}</span>}
        </span>
        <span className="min-w-0 text-xs leading-5 text-ink-2 max-md:order-last max-md:col-span-2 max-md:col-start-2">
          {facts}
        </span>
        <span className="num text-right text-xs leading-5 text-ink-3">{end}</span>
      </button>
      <div id={id} hidden={!open} className="pr-5 pb-4 pl-5 sm:pl-[46px]">
        {open && children}
      </div>
    </li>
  )
}

function RegisteredList({ children }: { children: ReactNode }) {
  return <ul className="border-b">{children}</ul>
}
