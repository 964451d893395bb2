import { configValues, type RunConfigDto } from '../../../server/contract/run-config.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import { readJson } from '../option-values.ts'
import { AWAY_MS } from '../wait-batch.ts'

export const command = defineCommand({
  name: 'run',
  summary: 'show or change the configuration and tags of a run',
  usage: 'NAME [options]',
  details: 'If an option is given, a run that does not exist is created.',
  positionals: { min: 1, max: 1 },
  options: {
    config: {
      type: 'string',
      value: 'JSON',
      help: 'JSON object that replaces the configuration, or @FILE; null removes it',
    },
    tag: { type: 'string', value: 'TAG', multiple: true, help: 'add a tag; repeatable' },
    untag: { type: 'string', value: 'TAG', multiple: true, help: 'remove a tag; repeatable' },
  },
  async run({ values, positionals, output, service, signal }) {
    const run = positionals[0] as string
    const config = values.config === undefined ? undefined : readJson('config', values.config)
    if (config !== undefined && (typeof config !== 'object' || Array.isArray(config)))
      throw usageError(`--config is not a JSON object. For example: --config '{"lr":1e-6}'`)
    const change = {
      ...(config === undefined ? {} : { config }),
      ...(values.tag === undefined ? {} : { addTags: values.tag }),
      ...(values.untag === undefined ? {} : { removeTags: values.untag }),
    }
    const client = await service()
    const found =
      Object.keys(change).length === 0
        ? await client.query<RunConfigDto>('runs.config', { run })
        : await client.mutate<RunConfigDto>(
            'runs.update',
            { run, ...change },
            { retryForMs: AWAY_MS, signal },
          )
    output.data(found)
    const { tags } = found
    output.line(`${run}  ${tags.length === 0 ? 'no tags' : `tags: ${tags.join(', ')}`}`)
    const rows = [...configValues(found.config ?? {})]
    const width = Math.max(0, ...rows.map(([key]) => key.length))
    for (const [key, value] of rows) output.line(`${key.padEnd(width)}  ${value}`)
  },
})
