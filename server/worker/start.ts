// The entry of a worker process. What it needs is loaded in parts with a turn of the event loop after each: loading holds
// the loop up, for half a minute where forty processes share two cores, and a request to stop is heard only in between.
import { setImmediate as turn } from 'node:timers/promises'
import '../stop-request.ts'

await import('../config.ts')
await turn()
await import('../store/job-queue.ts')
await turn()
await import('../router/reward-router.ts')
await turn()
await import('../rewards/functions/function-pool.ts')
await turn()
await import('./main.ts')
