import { planIsolation } from '../../../isolation/isolation.ts'
import { HOST_PATHS } from '../start-host.ts'

/** The isolation plan of this machine at the default level. */
export const TEST_PLAN = await planIsolation({
  level: 'process',
  network: 'router',
  paths: HOST_PATHS,
})
