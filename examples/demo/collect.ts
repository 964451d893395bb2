import type { GroupResult } from '../../server/contract/trainer.ts'
import type { Client } from './submit.ts'

export interface Reward {
  score: number | null
  /** Null or undefined if the scorer does not return it. */
  acc: unknown
  /** Null if the sample has a score. */
  reason: string | null
}

export async function collectRewards(client: Client, batchId: string): Promise<Reward[]> {
  const rewards: Reward[] = []
  for (;;) {
    const page = await client.batches.results.query({ batchId, offset: rewards.length })
    const accs = page.rewardExtraInfo.acc
    page.index.forEach((index, i) => {
      if (index !== rewards.length) {
        throw new Error(`batches.results returned index ${index} instead of ${rewards.length}`)
      }
      rewards.push({ score: page.score[i]!, acc: accs?.[i], reason: page.reason[i]! })
    })
    if (page.index.length < 10_000) return rewards
  }
}

export async function collectGroups(client: Client, batchId: string): Promise<GroupResult[]> {
  const groups: GroupResult[] = []
  let after: string | null = null
  for (;;) {
    const page: Awaited<ReturnType<typeof client.batches.next.query>> =
      await client.batches.next.query({ batchId, after, samples: 2000, waitMs: 10_000 })
    groups.push(...page.groups)
    after = page.cursor
    if (page.done) return groups
  }
}
