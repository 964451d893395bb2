import { planIsolation } from '../../../isolation/isolation.ts'
import { HOST_PATHS } from '../start-host.ts'

export const TEST_PLAN = await planIsolation({
  level: 'process',
  network: 'router',
  paths: HOST_PATHS,
})
