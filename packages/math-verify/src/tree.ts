import type { Rational } from './rational.ts'

/** A parsed answer. Sets, tuples and relations may contain any node; sums and products only numbers. */
export type Node =
  | { kind: 'number'; value: Rational /** Written with a decimal point. */; isDecimal: boolean }
  | { kind: 'constant'; name: 'pi' | 'e' | 'i' | 'infinity' }
  | { kind: 'symbol' /** In lower case. */; name: string }
  | { kind: 'sum'; parts: readonly Node[] }
  | { kind: 'product'; parts: readonly Node[] }
  | { kind: 'power'; base: Node; exponent: Node }
  | { kind: 'call'; name: string; parts: readonly Node[] }
  | { kind: 'matrix'; rows: readonly (readonly Node[])[] }
  | { kind: 'relation'; op: RelationOp; left: Node; right: Node }
  /** `a < b < c` as its relations, in order. */
  | { kind: 'chain'; parts: readonly Relation[] }
  /** In the order written. */
  | { kind: 'set'; parts: readonly Node[] }
  | { kind: 'tuple'; parts: readonly Node[] }
  | { kind: 'interval'; low: Node; high: Node; lowOpen: boolean; highOpen: boolean }
  | { kind: 'setOperation'; op: 'union' | 'intersection' | 'difference'; left: Node; right: Node }
  | { kind: 'numberSet'; name: 'naturals' | 'integers' | 'rationals' | 'reals' | 'complexes' }

export type Relation = Extract<Node, { kind: 'relation' }>
export type RelationOp = '=' | '≠' | '<' | '≤' | '>' | '≥'

export function isCollection(node: Node): boolean {
  return (
    node.kind === 'set' ||
    node.kind === 'tuple' ||
    node.kind === 'interval' ||
    node.kind === 'setOperation' ||
    node.kind === 'numberSet'
  )
}

export function isRelation(node: Node): node is Relation | Extract<Node, { kind: 'chain' }> {
  return node.kind === 'relation' || node.kind === 'chain'
}

export function whole(value: number | bigint): Node {
  return { kind: 'number', value: { n: BigInt(value), d: 1n }, isDecimal: false }
}

export function negated(node: Node): Node {
  if (node.kind === 'number') return { ...node, value: { n: -node.value.n, d: node.value.d } }
  return { kind: 'product', parts: [whole(-1), node] }
}

/** All nodes of the tree, its root included, in no defined order. */
export function* within(node: Node): Generator<Node> {
  const open: Node[] = [node]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    yield next
    open.push(...partsOf(next))
  }
}

export function partsOf(node: Node): readonly Node[] {
  switch (node.kind) {
    case 'number':
    case 'constant':
    case 'symbol':
    case 'numberSet':
      return []
    case 'power':
      return [node.base, node.exponent]
    case 'matrix':
      return node.rows.flat()
    case 'relation':
    case 'setOperation':
      return [node.left, node.right]
    case 'interval':
      return [node.low, node.high]
    default:
      return node.parts
  }
}

/**
 * Returns whether two trees are identical. Equal values are not enough: `2` differs from `1 + 1`, and `x + y` from `y +
 * x`.
 */
export function isSame(a: Node, b: Node): boolean {
  if (a.kind !== b.kind) return false
  switch (a.kind) {
    case 'number': {
      const other = b as typeof a
      return a.value.n === other.value.n && a.value.d === other.value.d
    }
    case 'constant':
    case 'symbol':
    case 'numberSet':
      return a.name === (b as typeof a).name
    case 'interval': {
      const other = b as typeof a
      return (
        a.lowOpen === other.lowOpen &&
        a.highOpen === other.highOpen &&
        isSame(a.low, other.low) &&
        isSame(a.high, other.high)
      )
    }
    case 'matrix': {
      const other = b as typeof a
      return (
        a.rows.length === other.rows.length &&
        a.rows.every((row, at) => isSameList(row, other.rows[at]!))
      )
    }
    case 'call':
      if (a.name !== (b as typeof a).name) return false
      break
    case 'relation':
    case 'setOperation':
      if (a.op !== (b as typeof a).op) return false
      break
  }
  return isSameList(partsOf(a), partsOf(b))
}

function isSameList(a: readonly Node[], b: readonly Node[]): boolean {
  return a.length === b.length && a.every((node, at) => isSame(node, b[at]!))
}

export function symbolsOf(node: Node): Set<string> {
  const names = new Set<string>()
  for (const one of within(node)) if (one.kind === 'symbol') names.add(one.name)
  return names
}
