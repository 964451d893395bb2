import type { ServerDto } from '../../../server/contract/servers.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import { wholeNumber } from '../option-values.ts'

const ACTIONS = ['drain', 'resume', 'sleep', 'wake', 'probe', 'remove'] as const

export const command = defineCommand({
  name: 'servers',
  summary: 'list, register or control reward-model servers',
  usage: `[add NAME URL | ${ACTIONS.join(' | ')} NAME] [options]`,
  details: `Without an action, the servers are listed. "add" registers a server, or updates the one with this name. The engine
is auto-detected unless --engine is given.`,
  positionals: { min: 0, max: 3 },
  options: {
    engine: { type: 'string', value: 'NAME', help: 'add: vllm, sglang, tei, llamacpp, openai …' },
    kind: { type: 'string', value: 'KIND', help: 'add: discriminative (default) or generative' },
    model: { type: 'string', value: 'NAME', help: 'add: the model, if the server has several' },
    route: {
      type: 'string',
      value: 'ROUTE',
      help: 'add: classify, token or pair (default: auto-detect)',
    },
    label: {
      type: 'string',
      value: 'LABEL',
      help: 'add: the label whose value is the score (default: the last)',
    },
    'max-in-flight': { type: 'string', value: 'N', help: 'add: maximum concurrent requests' },
    'keep-unreachable': {
      type: 'boolean',
      help: 'add: register the server even if it is still loading',
    },
  },
  async run({ values, positionals, output, service }) {
    const [action, name, address] = positionals
    const maxInFlight = wholeNumber('max-in-flight', values['max-in-flight'], 1)
    if (action === undefined) {
      const client = await service()
      const servers = await client.query<ServerDto[]>('servers.list')
      output.data(servers)
      if (servers.length === 0)
        output.line('There are no servers. "rewardops servers add NAME URL" registers one.')
      else output.table(HEADINGS, servers.map(rowOf))
      return
    }
    if (action === 'add') {
      if (name === undefined || address === undefined) {
        throw usageError('Usage: rewardops servers add NAME URL [options]')
      }
      const client = await service()
      const server = await client.mutate<ServerDto>('servers.register', {
        name,
        url: address,
        engine: values.engine ?? 'auto',
        ...(values.kind === undefined ? {} : { kind: values.kind }),
        ...(values.model === undefined ? {} : { model: values.model }),
        ...(values.route === undefined ? {} : { route: values.route }),
        ...(values.label === undefined ? {} : { label: values.label }),
        ...(maxInFlight === undefined ? {} : { maxInFlight }),
        ...(values['keep-unreachable'] ? { ifUnreachable: 'keep' } : {}),
      })
      output.data(server)
      output.table(HEADINGS, [rowOf(server)])
      return
    }
    if (
      !(ACTIONS as readonly string[]).includes(action) ||
      name === undefined ||
      address !== undefined
    ) {
      throw usageError(`Usage: rewardops servers [add NAME URL | ${ACTIONS.join(' | ')} NAME]`)
    }
    const client = await service()
    const server = await client.mutate<ServerDto>(`servers.${action}`, { name })
    output.data(server)
    output.line(`${name}: ${action === 'remove' ? 'removed' : server.state}`)
  },
})

const HEADINGS = [
  'NAME',
  'STATE',
  'ENGINE',
  'KIND',
  'MODEL',
  'IN FLIGHT',
  'LIMIT',
  'REQUESTS',
  'ERRORS',
  'P50 MS',
  'P99 MS',
  'URL',
]

function rowOf(server: ServerDto): (string | number | null)[] {
  const { name, state, engine, kind, model, inFlight, limit, requests, errors, url } = server
  const ms = (value: number | null) => (value === null ? null : Math.round(value))
  return [
    name,
    state,
    engine,
    kind,
    model,
    inFlight,
    limit,
    requests,
    errors,
    ms(server.p50Ms),
    ms(server.p99Ms),
    url,
  ]
}
