import { configValues, MAX_TAGS, type UpdateRunInput } from '../../contract/run-config.ts'
import { textArray } from '../array-literal.ts'
import { notify } from '../channels.ts'
import type { Client, Database } from '../database.ts'

export interface RunConfigRow {
  name: string
  config: Record<string, unknown> | null
  tags: string[] | null
}

export async function runConfig(db: Database, name: string): Promise<RunConfigRow | undefined> {
  const [row] = await db.rows<RunConfigRow>(
    'run-config',
    'select name, config, tags from run where name = $1',
    [name],
  )
  return row
}

/** Changes a run, or creates it if it does not exist. Returns null if it would have more than {@link MAX_TAGS} tags. */
export async function changeRun(
  client: Client,
  { run, config, tags, addTags = [], removeTags = [] }: UpdateRunInput,
): Promise<RunConfigRow | null> {
  await client.query({
    name: 'run-insert',
    text: 'insert into run (name) values ($1) on conflict (name) do nothing',
    values: [run],
  })
  const { rows } = await client.query<RunConfigRow>({
    name: 'change-run',
    text: `
      update run set config = case when $2 then $3::json else config end,
        config_values = case when $2 then $4::jsonb else config_values end, tags = t.tags
      from (
        select id, (
          -- Each tag once, in the order of its first occurrence.
          select coalesce(array_agg(tag order by at), '{}') from (
            select tag, min(at) as at
            from unnest(coalesce($5::text[], run.tags, '{}') || $6::text[]) with ordinality as u(tag, at)
            where tag <> all ($7::text[]) group by tag) once) as tags
        from run where name = $1 for no key update) t
      where run.id = t.id and cardinality(t.tags) <= $8 returning name, config, run.tags`,
    values: [
      run,
      config !== undefined,
      config == null ? null : JSON.stringify(config),
      config == null ? null : JSON.stringify(Object.fromEntries(configValues(config))),
      tags === undefined ? null : textArray(tags),
      textArray(addTags),
      textArray(removeTags),
      MAX_TAGS,
    ],
  })
  if (rows[0] === undefined) return null
  await notify(client, 'runsChanged')
  return rows[0]
}
