import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withSession } from '../session.ts'

/** The superuser that initdb creates. The service uses it only to prepare roles and its database. */
export const SUPERUSER = 'rewardops'
/** The role of the service and its workers: the owner of its database, without further rights. */
const SERVICE_ROLE = 'rewardops_service'

/** The passwords of both roles, in a file that only the service's user can read. */
export interface Passwords {
  superuser: string
  service: string
}

/** The pg_hba.conf with which every connection needs a password. */
const CLOSED = `# Written by rewardops at each start.
local all all scram-sha-256
`
/**
 * The pg_hba.conf while the service assigns passwords: the superuser connects without one. This is safe, because only
 * root and the account of Postgres can enter the folder of the socket.
 */
const OPEN = `local all ${SUPERUSER} trust
`

const fileOf = (dataDir: string) => join(dataDir, 'postgres.passwords')
const hbaOf = (folder: string) => join(folder, 'pg_hba.conf')

export function readPasswords(dataDir: string): Passwords | null {
  try {
    const { superuser, service } = JSON.parse(
      readFileSync(fileOf(dataDir), 'utf8'),
    ) as Partial<Passwords>
    return superuser && service ? { superuser, service } : null
  } catch {
    return null
  }
}

/**
 * Makes sure that a data folder has passwords, before Postgres starts. `areSet` is false if the cluster is new, was
 * written by an earlier version, or has lost its file of passwords. Postgres then accepts the superuser without a
 * password until {@link setPasswords}.
 */
export function claimPasswords(
  dataDir: string,
  folder: string,
): { passwords: Passwords; areSet: boolean } {
  const known = readPasswords(dataDir)
  if (known !== null && readFileSync(hbaOf(folder), 'utf8') === CLOSED) {
    return { passwords: known, areSet: true }
  }
  const passwords = known ?? { superuser: newPassword(), service: newPassword() }
  const draft = `${fileOf(dataDir)}.${process.pid}`
  writeFileSync(draft, JSON.stringify(passwords), { mode: 0o600 })
  renameSync(draft, fileOf(dataDir))
  writeFileSync(hbaOf(folder), OPEN)
  return { passwords, areSet: false }
}

const newPassword = () => randomBytes(32).toString('base64url')

/** Creates the service's role, sets both passwords, and requires them from now on. */
export async function setPasswords(
  adminUrl: string,
  folder: string,
  { superuser, service }: Passwords,
): Promise<void> {
  await withSession(adminUrl, async (client) => {
    const role = await client.query('select from pg_roles where rolname = $1', [SERVICE_ROLE])
    if (role.rowCount === 0) await client.query(`create role ${SERVICE_ROLE} login`)
    await client.query(`alter role ${SERVICE_ROLE} password ${client.escapeLiteral(service)}`)
    await client.query(`alter role ${SUPERUSER} password ${client.escapeLiteral(superuser)}`)
    writeFileSync(hbaOf(folder), CLOSED)
    await client.query('select pg_reload_conf()')
  })
}

export function socketUrl(
  socketDir: string,
  database: string,
  passwords: Passwords,
  as: keyof Passwords,
): string {
  const role = as === 'superuser' ? SUPERUSER : SERVICE_ROLE
  // Port and sslmode are explicit, because pg would otherwise read PGPORT and PGSSLMODE from the environment.
  const address = `postgresql://${role}:${passwords[as]}@localhost:5432/${encodeURIComponent(database)}`
  return `${address}?host=${encodeURIComponent(socketDir)}&sslmode=disable`
}

/**
 * Makes sure that the service's role owns its database, even if an earlier version created the database as superuser.
 */
export async function ensureDatabase(
  adminUrl: (database: string) => string,
  database: string,
): Promise<void> {
  await withSession(adminUrl('postgres'), async (client) => {
    const name = client.escapeIdentifier(database)
    const { rows } = await client.query<{ owner: string }>(
      'select pg_get_userbyid(datdba) as owner from pg_database where datname = $1',
      [database],
    )
    if (rows[0]?.owner === SERVICE_ROLE) return
    if (rows[0] === undefined) {
      await client.query(`create database ${name} owner ${SERVICE_ROLE}`)
      return
    }
    await withSession(adminUrl(database), (inside) => inside.query(TAKE_OVER))
    // The owner of the database is changed last, because it marks the hand-over as complete.
    await client.query(`alter database ${name} owner to ${SERVICE_ROLE}`)
  })
}

/** Makes the service's role the owner of every schema, relation, function and type that the superuser created. */
const TAKE_OVER = `do $$
declare statement text;
begin
  for statement in
    select format('alter schema %I owner to ${SERVICE_ROLE}', nspname) from pg_namespace
      where nspowner = '${SUPERUSER}'::regrole and nspname !~ '^pg_' and nspname <> 'information_schema'
    union all
    select format('alter %s %s owner to ${SERVICE_ROLE}',
        case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
          when 'c' then 'type' else 'table' end, c.oid::regclass)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relowner = '${SUPERUSER}'::regrole and c.relkind in ('r', 'p', 'v', 'm', 'S', 'c')
        and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
        -- A sequence that belongs to a column gets the new owner together with the table.
        and not exists (select from pg_depend d
          where d.classid = 'pg_class'::regclass and d.objid = c.oid and c.relkind = 'S' and d.deptype in ('a', 'i'))
    union all
    select format('alter routine %s owner to ${SERVICE_ROLE}', p.oid::regprocedure)
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where p.proowner = '${SUPERUSER}'::regrole and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
    union all
    select format('alter type %s owner to ${SERVICE_ROLE}', t.oid::regtype)
      from pg_type t join pg_namespace n on n.oid = t.typnamespace
      where t.typowner = '${SUPERUSER}'::regrole and t.typtype in ('e', 'd', 'r')
        and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  loop
    execute statement;
  end loop;
end $$`
