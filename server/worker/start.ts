// The entry of a worker process. Loading its modules blocks the event loop, for half a minute when forty processes
// share two cores. The modules are therefore loaded one by one, with a turn of the event loop after each to handle stop
// requests.
import { setImmediate as turn } from 'node:timers/promises'
import '../stop-request.ts'
import '../v8-flags.ts'

await import('../config.ts')
await turn()
await import('../store/job-queue.ts')
await turn()
await import('../router/reward-router.ts')
await turn()
await import('../rewards/functions/function-pool.ts')
await turn()
await import('./main.ts')
