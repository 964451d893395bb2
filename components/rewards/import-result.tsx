'use client'

import { FlaskConical, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { formatCount, plural } from '../format/numbers.ts'
import { sentence } from '../format/text.ts'
import { engineName } from '../servers/server-words.ts'
import { useSession } from '../session/use-session.ts'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-text.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { type Imported, ImportKeys } from './import-keys.tsx'
import { launchCurl, serveCommand, shellWords, submitCurl } from './import-snippets.ts'
import { tryHref } from './rewards-url.ts'

const SHAPES: Record<Imported['shape'], string> = {
  legacy: 'legacy keys (reward_model.*)',
  current: 'current keys (reward.*)',
  both: 'legacy and current keys',
  none: 'no reward keys',
}

export function ImportResult({ config }: { config: Imported }) {
  const session = useSession()
  const { reward, servers, functionServer, problems, keys } = config
  const address = session.data?.address ?? ''
  const keyed = session.data?.auth === 'key'
  const json = JSON.stringify(reward, null, 2)
  return (
    <div className="pb-8" data-imported={config.shape}>
      <p className="num border-b px-5 py-3 text-ink-2">
        {plural(keys.length, 'key')}, {SHAPES[config.shape]}.{' '}
        {problems.length === 0 ? 'No problems found.' : ''}
      </p>
      {problems.length > 0 && <Problems problems={problems} />}
      <Section
        title="Reward"
        note="For the reward field of batches.submit"
        actions={
          <>
            <CopyButton text={json} label="Copy as JSON" />
            <CopyButton text={submitCurl(config, address, keyed)} label="Copy as curl" />
            <PageLink href={tryHref(reward)} className={buttonClass('plain', true)}>
              <FlaskConical size={13} aria-hidden />
              Try it
            </PageLink>
          </>
        }
      >
        <Code label="Reward as JSON">{json}</Code>
      </Section>
      <Elsewhere config={config} />
      {functionServer !== null && (
        <Section
          title="Python function"
          note={`Served as model ${functionServer.model}`}
          actions={<CopyButton text={serveCommand(functionServer.command, keyed)} label="Copy" />}
        >
          <Code label="Serve command">{serveCommand(functionServer.command, keyed)}</Code>
        </Section>
      )}
      {servers.length > 0 && (
        <Section
          title="Servers"
          note={`${plural(servers.length, 'server')}, for servers.launch or REWARDOPS_SERVERS_FILE`}
          actions={<CopyButton text={JSON.stringify(servers, null, 2)} label="Copy all as JSON" />}
        >
          <ul className="border-b">
            {servers.map((server) => (
              <li key={server.name} className="border-t px-5 py-2.5">
                <p className="flex flex-wrap items-center gap-x-3">
                  <span className="font-mono text-xs font-medium">{server.name}</span>
                  <span className="text-xs text-ink-3">
                    {engineName(server.engine)}, {server.kind}, port {server.port}
                  </span>
                  <span className="ml-auto">
                    <CopyButton text={launchCurl(server, address, keyed)} label="Copy as curl" />
                  </span>
                </p>
                <code className="mt-0.5 block font-mono text-xs [overflow-wrap:anywhere] text-ink-2">
                  {shellWords(server.command)}
                </code>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <ImportKeys keys={keys} />
    </div>
  )
}

function Problems({ problems }: { problems: Imported['problems'] }) {
  return (
    <section aria-label="Problems" className="border-b px-5 py-3">
      <ul className="space-y-2">
        {problems.map(({ key, line, message }, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: problems of a text do not move
          <li key={at} className="flex gap-2.5">
            <TriangleAlert size={15} className="mt-[2.5px] shrink-0 text-warn" aria-hidden />
            <span className="min-w-0 break-words">
              {key !== null && <span className="font-mono text-xs font-medium">{key} </span>}
              <span className="text-ink-2">{key === null ? sentence(message) : message}</span>
              {line !== null && <span className="num text-xs text-ink-3"> line {line}</span>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Elsewhere({ config }: { config: Imported }) {
  const { groupSize, workers, normAdvByStd, dataSourceColumn, sandbox } = config
  const facts: [string, ReactNode][] = []
  if (groupSize !== null)
    facts.push(['groupSize', `${formatCount(groupSize)}, set in batches.submit`])
  if (workers !== null) facts.push(['REWARDOPS_WORKERS', formatCount(workers)])
  if (dataSourceColumn !== null) {
    facts.push(['dataSource', `Dataset column ${dataSourceColumn}`])
  }
  if (normAdvByStd !== null) {
    facts.push([
      'advantages',
      normAdvByStd ? 'Divided by the standard deviation' : 'Mean subtracted only',
    ])
  }
  if (sandbox !== null) {
    facts.push([
      'reward.kwargs',
      <span key="sandbox" className="font-mono text-xs">
        {JSON.stringify({
          sandbox_fusion_url: sandbox.url,
          max_concurrent: sandbox.maxConcurrent,
          memory_limit_mb: sandbox.memoryLimitMb,
        })}
        , for batches scored by the rule “code”, if REWARDOPS_SANDBOXES lists this URL
      </span>,
    ])
  }
  if (facts.length === 0) return null
  return (
    <Section title="Other settings" note="Not part of the reward">
      <dl className="grid grid-cols-[minmax(110px,auto)_minmax(0,1fr)] gap-x-6 gap-y-1 px-5 pb-3">
        {facts.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="font-mono text-xs leading-5 text-ink-3">{name}</dt>
            <dd className="num min-w-0 break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Section>
  )
}

function Code({ label, children }: { label: string; children: string }) {
  return (
    <div className="px-5 pb-3">
      <Scroll label={label} className="overflow-x-auto rounded-md bg-sunken px-3 py-2">
        <pre className="font-mono text-xs leading-[19px]">{children}</pre>
      </Scroll>
    </div>
  )
}
