import type { ProxiedPath } from '../../contract/proxied-paths.ts'
import type {
  RewardRouter,
  RouterSlot,
  SlotRefusal,
  SlotRequest,
} from '../../router/router-types.ts'
import type { ModelDirectory } from './model-directory.ts'
import { hasPath } from './routes.ts'

/** Pause before the next search, in ms, if the router gave a slot of a server without the path. */
const OTHER_ENGINE_MS = 25

export interface SlotSearch {
  path: ProxiedPath
  /** The request to the router, without `deadlineMs`, `avoid` and `exclude`, which change between searches. */
  request: Omit<SlotRequest, 'deadlineMs' | 'avoid' | 'exclude'>
  failed: readonly number[]
  /** Time until the caller's deadline, in ms; undefined if the caller gave none. */
  readonly leftMs: number | undefined
  /** Waits. Throws when the request is stopped. */
  pause(ms: number): Promise<void>
}

/**
 * Acquires a slot of a server whose engine has the path. `queueMs` is the wait over all searches.
 * @throws RewardOpsError as {@link ModelDirectory.lacking} and `pause` do
 */
export async function findSlot(
  router: RewardRouter,
  directory: ModelDirectory,
  search: SlotSearch,
): Promise<{ ok: true; slot: RouterSlot; queueMs: number } | SlotRefusal> {
  const { request, path, failed } = search
  let queueMs = 0
  for (;;) {
    const lacking = directory.lacking(request.model, path)
    const { leftMs } = search
    const got = await router.acquire(
      leftMs === undefined && failed.length === 0 && lacking.length === 0
        ? request
        : {
            ...request,
            ...(leftMs === undefined ? {} : { deadlineMs: leftMs }),
            ...(failed.length === 0 ? {} : { avoid: failed }),
            ...(lacking.length === 0 ? {} : { exclude: lacking }),
          },
    )
    if (!got.ok) return got
    const { slot } = got
    queueMs += slot.queueMs
    if (hasPath(slot.engine, path)) return { ok: true, slot, queueMs }
    slot.release({ outcome: 'cancelled' })
    // The server was registered, or its engine changed, during the wait. Without a pause, the router could immediately
    // offer the same slot again.
    await search.pause(OTHER_ENGINE_MS)
  }
}
