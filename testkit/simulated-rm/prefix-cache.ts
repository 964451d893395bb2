/** An engine's prefix cache of recent prompts: a text whose prompt is cached does not pay for it. */
export class PrefixCache {
  /** Maximum of cached prompts; 0: no cache. */
  groups: number
  hitTokens = 0
  queryTokens = 0
  readonly #prompts = new Set<string>()

  constructor(groups: number) {
    this.groups = groups
  }

  /** Remaining tokens of the prompt: none if it is cached. Marks the prompt as the most recent. */
  take(prompt: string, tokens: number): number {
    if (this.groups === 0 || prompt === '') return tokens
    this.queryTokens += tokens
    const hit = this.#prompts.delete(prompt)
    this.#prompts.add(prompt)
    if (this.#prompts.size > this.groups) {
      const [oldest] = this.#prompts
      this.#prompts.delete(oldest as string)
    }
    if (!hit) return tokens
    this.hitTokens += tokens
    return 0
  }

  clear(): void {
    this.#prompts.clear()
  }
}
