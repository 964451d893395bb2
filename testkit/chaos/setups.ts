export interface Setup {
  name: string
  /** `embedded`: the server's own Postgres; `own`: a separate one behind a proxy. */
  database: 'embedded' | 'own'
  servers: number
  /** Workers per server. */
  localWorkers: number
  /** Workers started by the harness. */
  extraWorkers: number
  /** Number of reward-model servers, which all serve the same model. */
  models: number
  pooler: 'none' | 'pgbouncer'
  hasStandby: boolean
  /** Size of a separate file system for Postgres's data, MiB, or null if there is none. */
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

export function setupNamed(name: string): Setup {
  const setup = SETUPS.find((one) => one.name === name)
  if (setup === undefined)
    throw new Error(`unknown setup "${name}"; known: ${SETUPS.map((one) => one.name).join(', ')}`)
  return setup
}
