/** The prompts seen last, as an engine's prefix cache holds them: a row whose prompt is among them does not pay for it. */
export class PrefixCache {
  /** Most prompts kept; 0: no cache. */
  groups: number
  hitTokens = 0
  queryTokens = 0
  readonly #prompts = new Set<string>()

  constructor(groups: number) {
    this.groups = groups
  }

  /** Tokens of the prompt that are left to do: none where it was seen lately. Remembers it as the last one seen. */
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
