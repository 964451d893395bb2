import type {
  RewardRouter,
  RouterSlot,
  SlotRefusal,
  SlotRequest,
} from '../../router/router-types.ts'
import type { ModelDirectory } from './model-directory.ts'
import { hasPath, type ProxiedPath } from './routes.ts'

/** Between two looks for a server whose engine has the path, while others of the model keep offering themselves, ms. */
const OTHER_ENGINE_MS = 25

/** What is looked for. */
export interface SlotSearch {
  path: ProxiedPath
  /** Without `deadlineMs` and `avoid`, which change from one look to the next. */
  request: Omit<SlotRequest, 'deadlineMs' | 'avoid'>
  /** Servers that failed this request. */
  failed: readonly number[]
  /** Until the caller's deadline, ms; undefined: it gave none. */
  readonly leftMs: number | undefined
  /** Waits; throws when the request is given up. */
  pause(ms: number): Promise<void>
}

/**
 * The right to send one call to a server whose engine has the path; `queueMs` over all looks.
 * @throws RewardOpsError as {@link ModelDirectory.lacking}; what `pause` throws
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
    const avoid = lacking.length === 0 ? failed : [...failed, ...lacking]
    const { leftMs } = search
    const got = await router.acquire(
      leftMs === undefined && avoid.length === 0
        ? request
        : {
            ...request,
            ...(leftMs === undefined ? {} : { deadlineMs: leftMs }),
            ...(avoid.length === 0 ? {} : { avoid }),
          },
    )
    if (!got.ok) return got
    const { slot } = got
    queueMs += slot.queueMs
    if (hasPath(slot.engine, path)) return { ok: true, slot, queueMs }
    slot.release({ outcome: 'cancelled' })
    // The servers that have the path are busy: one that lacks it would offer itself again at once.
    await search.pause(OTHER_ENGINE_MS)
  }
}
