// The entry of a worker process. It loads its modules one by one with a turn of the event loop after each, because stop
// requests are handled only between two modules. Loading blocks the event loop. It takes half a minute when forty
// processes share two cores.
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
