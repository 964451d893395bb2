/** An arrangement of processes that an episode runs on. */
export interface Setup {
  name: string
  /** `embedded`: the server's own Postgres; `own`: one beside it, behind a proxy. */
  database: 'embedded' | 'own'
  servers: number
  /** Workers that each server starts. */
  localWorkers: number
  /** Workers that the harness starts beside the servers. */
  extraWorkers: number
  /** Reward-model servers of the one model. */
  models: number
  /** Between servers and Postgres. */
  pooler: 'none' | 'pgbouncer'
  hasStandby: boolean
  /** Postgres keeps its data on a file system of so many MiB; null: on the machine's own. */
  diskMb: number | null
}

const PLAIN: Setup = {
  name: 'embedded',
  database: 'embedded',
  servers: 1,
  localWorkers: 2,
  extraWorkers: 0,
  models: 1,
  pooler: 'none',
  hasStandby: false,
  diskMb: null,
}

/** Every arrangement, by name. */
export const SETUPS: readonly Setup[] = [
  PLAIN,
  { ...PLAIN, name: 'two-models', models: 2 },
  { ...PLAIN, name: 'own', database: 'own' },
  { ...PLAIN, name: 'extra-workers', database: 'own', localWorkers: 1, extraWorkers: 2 },
  { ...PLAIN, name: 'two-servers', database: 'own', servers: 2, localWorkers: 1 },
  { ...PLAIN, name: 'pgbouncer', database: 'own', pooler: 'pgbouncer' },
  { ...PLAIN, name: 'standby', database: 'own', hasStandby: true },
  { ...PLAIN, name: 'small-disk', database: 'own', diskMb: 320 },
]

/** The setup of a name. @throws for an unknown one */
export function setupNamed(name: string): Setup {
  const setup = SETUPS.find((one) => one.name === name)
  if (setup === undefined)
    throw new Error(`unknown setup "${name}"; known: ${SETUPS.map((one) => one.name).join(', ')}`)
  return setup
}
