import { Agent, fetch as undiciFetch } from 'undici'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import { type LocalSandbox, sandboxAddress } from '../contract/sandbox.ts'
import { guardedFetch } from '../router/guarded-fetch.ts'
import { type RuleService, RuleServiceError } from './rules/async-rule.ts'

export interface SandboxAccess {
  named: Record<string, string>
  /** Starts the local sandbox if necessary. */
  local: () => Promise<LocalSandbox>
}

export interface Sandboxes {
  /** @throws RuleServiceError if the reward uses the local sandbox and there is none */
  of(reward: ResolvedReward): Promise<RuleService>
}

export class ReachableSandboxes implements Sandboxes {
  readonly #local: () => Promise<LocalSandbox>
  #agent: { socketPath: string; agent: Agent } | null = null

  constructor(local: () => Promise<LocalSandbox>) {
    this.#local = local
  }

  async of({ sandbox, kwargs }: ResolvedReward): Promise<RuleService> {
    // A batch that an earlier version accepted has the sandbox's URL among the kwargs.
    const before = sandbox === undefined ? kwargs.sandbox_fusion_url : undefined
    const url = sandbox?.url ?? (typeof before === 'string' ? sandboxAddress(before) : null)
    if (url !== null) return { url, fetch: guardedFetch }
    const local = await this.#local()
    if (!local.ok) {
      throw new RuleServiceError('transport', `this worker has no sandbox: ${local.reason}`)
    }
    const { socketPath, slots } = local
    return { url: 'http://sandbox', fetch: this.#fetchOver(socketPath), slots }
  }

  close(): void {
    void this.#agent?.agent.destroy()
  }

  #fetchOver(socketPath: string): typeof fetch {
    if (this.#agent?.socketPath !== socketPath) {
      void this.#agent?.agent.close()
      const agent = new Agent({ connect: { socketPath }, headersTimeout: 0, bodyTimeout: 0 })
      this.#agent = { socketPath, agent }
    }
    const { agent } = this.#agent
    return (input, init) => {
      const options = { ...init, dispatcher: agent } as Parameters<typeof undiciFetch>[1]
      return undiciFetch(input as string, options) as unknown as Promise<Response>
    }
  }
}
