/** An engine's prefix cache of recent prompts. The tokens of a cached prompt cost no time. */
export class PrefixCache {
  /** Maximum number of cached prompts. 0 turns the cache off. */
  groups: number
  hitTokens = 0
  queryTokens = 0
  readonly #prompts = new Set<string>()

  constructor(groups: number) {
    this.groups = groups
  }

  /**
   * Returns the number of the prompt's tokens to process, 0 if the prompt is cached. Marks the prompt as the most
   * recent.
   */
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
