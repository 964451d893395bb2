import type { UrlCodec } from '../../url/use-url.ts'

export type Side = 'left' | 'right'

export interface SideBySideView {
  left: string | null
  right: string | null
  /** The side that J and K step through. */
  side: Side
  diff: boolean
}

const SAMPLE_ID = /^b\d{1,18}-\d{1,9}$/

export const sideBySideView: UrlCodec<SideBySideView> = {
  parse(params) {
    const id = (name: Side) => {
      const value = params.get(name)
      return value !== null && SAMPLE_ID.test(value) ? value : null
    }
    return {
      left: id('left'),
      right: id('right'),
      side: params.get('side') === 'left' ? 'left' : 'right',
      diff: params.get('diff') !== 'off',
    }
  },
  write({ left, right, side, diff }) {
    const params = new URLSearchParams()
    if (left !== null) params.set('left', left)
    if (right !== null) params.set('right', right)
    if (side === 'left') params.set('side', side)
    if (!diff) params.set('diff', 'off')
    return params
  },
}

/** The URL of two samples side by side: siblings of a group, or the same prompt at two steps. */
export function sideBySideHref(left: string, right: string): string {
  return `/samples/compare?left=${left}&right=${right}`
}

interface Member {
  id: string
  index: number
  score: number | null
}

/**
 * Returns the sample of the same group to compare a sample with: the sample whose score differs most, or the next
 * sample if no scores differ. Null if the group has no other sample.
 */
export function counterpartOf(siblings: readonly Member[], id: string): string | null {
  const at = siblings.findIndex((sibling) => sibling.id === id)
  const own = siblings[at]?.score ?? null
  let best: Member | null = null
  for (let by = 1; by < siblings.length; by++) {
    const other = siblings[(at + by + siblings.length) % siblings.length] as Member
    if (other.id === id) continue
    if (best === null || distance(own, other.score) > distance(own, best.score)) best = other
  }
  return best?.id ?? null
}

function distance(a: number | null, b: number | null): number {
  return a === null || b === null ? -1 : Math.abs(a - b)
}
