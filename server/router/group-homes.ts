import type { PoolServer } from './pool-server.ts'

/** Groups remembered: the prompts of more are no longer in a server's prefix cache. */
const REMEMBERED = 4_096

/** Which server took up a group: its prompt is cached there. The oldest are forgotten. */
export class GroupHomes {
  readonly #homes = new Map<string, PoolServer>()

  of(group: string): PoolServer | null {
    return this.#homes.get(group) ?? null
  }

  take(group: string, server: PoolServer): void {
    this.#homes.set(group, server)
    if (this.#homes.size <= REMEMBERED) return
    const { value } = this.#homes.keys().next()
    if (value !== undefined) this.#homes.delete(value)
  }

  /** A server left, or takes no work: its groups are anybody's. */
  forget(server: PoolServer): void {
    for (const [group, home] of this.#homes) if (home === server) this.#homes.delete(group)
    server.groups.length = 0
  }
}
