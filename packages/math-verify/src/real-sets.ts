import type { Budget } from './budget.ts'
import { evaluate, NoValue } from './numeric.ts'
import { type Node, type Relation, symbolsOf } from './tree.ts'

/** An interval of the real line. A point is closed at both ends. */
interface Piece {
  low: number
  high: number
  lowOpen: boolean
  highOpen: boolean
}

const MAX_TOLERANCE = 1e-9

/** A set of real numbers as sorted, disjoint pieces; null for other nodes. */
function piecesOf(node: Node, budget: Budget): Piece[] | null {
  budget.step()
  switch (node.kind) {
    case 'interval': {
      const low = realValue(node.low, budget)
      const high = realValue(node.high, budget)
      if (low === null || high === null) return null
      return normalized([
        {
          low,
          high,
          lowOpen: node.lowOpen || low === Number.NEGATIVE_INFINITY,
          highOpen: node.highOpen || high === Number.POSITIVE_INFINITY,
        },
      ])
    }
    case 'set': {
      const pieces: Piece[] = []
      for (const part of node.parts) {
        const value = realValue(part, budget)
        if (value === null || !Number.isFinite(value)) return null
        pieces.push({ low: value, high: value, lowOpen: false, highOpen: false })
      }
      return normalized(pieces)
    }
    case 'numberSet':
      return node.name === 'reals' ? everything() : null
    case 'setOperation': {
      const left = piecesOf(node.left, budget)
      const right = left === null ? null : piecesOf(node.right, budget)
      if (left === null || right === null) return null
      if (node.op === 'union') return normalized([...left, ...right])
      return intersection(left, node.op === 'difference' ? complement(right) : right)
    }
    default:
      return null
  }
}

export function realSetsEqual(a: Node, b: Node, budget: Budget): boolean {
  const left = piecesOf(a, budget)
  const right = left === null ? null : piecesOf(b, budget)
  if (left === null || right === null || left.length !== right.length) return false
  return left.every((piece, at) => {
    const other = right[at]!
    return (
      piece.lowOpen === other.lowOpen &&
      piece.highOpen === other.highOpen &&
      isNear(piece.low, other.low) &&
      isNear(piece.high, other.high)
    )
  })
}

/** The numbers that satisfy `x < 3`, `-2 ≤ x ≤ 7` or `x ≠ 0`; null unless one symbol stands alone on its side. */
export function solutionsOf(
  node: Relation | { kind: 'chain'; parts: readonly Relation[] },
): Node | null {
  const relations = node.kind === 'chain' ? node.parts : [node]
  if (symbolsOf(node as Node).size !== 1) return null
  let set: Node | null = null
  for (const relation of relations) {
    const one = solutionsOfOne(relation)
    if (one === null) return null
    set = set === null ? one : { kind: 'setOperation', op: 'intersection', left: set, right: one }
  }
  return set
}

const infinity: Node = { kind: 'constant', name: 'infinity' }
const minusInfinity: Node = {
  kind: 'product',
  parts: [{ kind: 'number', value: { n: -1n, d: 1n }, isDecimal: false }, infinity],
}

function solutionsOfOne({ op, left, right }: Relation): Node | null {
  const isLeft = left.kind === 'symbol' && symbolsOf(right).size === 0
  if (!isLeft && !(right.kind === 'symbol' && symbolsOf(left).size === 0)) return null
  const bound = isLeft ? right : left
  const isBelow = op === '<' || op === '≤' ? isLeft : !isLeft
  switch (op) {
    case '=':
      return { kind: 'set', parts: [bound] }
    case '≠':
      return {
        kind: 'setOperation',
        op: 'difference',
        left: { kind: 'numberSet', name: 'reals' },
        right: { kind: 'set', parts: [bound] },
      }
    default: {
      const open = op === '<' || op === '>'
      return isBelow
        ? { kind: 'interval', low: minusInfinity, high: bound, lowOpen: true, highOpen: open }
        : { kind: 'interval', low: bound, high: infinity, lowOpen: open, highOpen: true }
    }
  }
}

function realValue(node: Node, budget: Budget): number | null {
  try {
    const value = evaluate(node, new Map(), budget)
    return Array.isArray(value) || value.im !== 0 || Number.isNaN(value.re) ? null : value.re
  } catch (error) {
    if (error instanceof NoValue) return null
    throw error
  }
}

function everything(): Piece[] {
  return [
    {
      low: Number.NEGATIVE_INFINITY,
      high: Number.POSITIVE_INFINITY,
      lowOpen: true,
      highOpen: true,
    },
  ]
}

function normalized(pieces: Piece[]): Piece[] {
  const sorted = pieces
    .filter(
      (piece) =>
        piece.low < piece.high || (piece.low === piece.high && !piece.lowOpen && !piece.highOpen),
    )
    .sort((a, b) => a.low - b.low || Number(a.lowOpen) - Number(b.lowOpen))
  const result: Piece[] = []
  for (const piece of sorted) {
    const last = result.at(-1)
    const touches =
      last !== undefined &&
      (piece.low < last.high || (isNear(piece.low, last.high) && !(piece.lowOpen && last.highOpen)))
    if (!touches) {
      result.push({ ...piece })
    } else if (piece.high > last.high && !isNear(piece.high, last.high)) {
      last.high = piece.high
      last.highOpen = piece.highOpen
    } else if (isNear(piece.high, last.high)) {
      last.highOpen = last.highOpen && piece.highOpen
    }
  }
  return result
}

function complement(pieces: Piece[]): Piece[] {
  let low = Number.NEGATIVE_INFINITY
  let lowOpen = true
  const result: Piece[] = []
  for (const piece of pieces) {
    result.push({ low, lowOpen, high: piece.low, highOpen: !piece.lowOpen })
    low = piece.high
    lowOpen = !piece.highOpen
  }
  result.push({ low, lowOpen, high: Number.POSITIVE_INFINITY, highOpen: true })
  return result.filter(
    (piece) =>
      piece.low < piece.high || (piece.low === piece.high && !piece.lowOpen && !piece.highOpen),
  )
}

function intersection(a: Piece[], b: Piece[]): Piece[] {
  const result: Piece[] = []
  for (const left of a) {
    for (const right of b) {
      const isLeftLow = left.low > right.low || (left.low === right.low && left.lowOpen)
      const isLeftHigh = left.high < right.high || (left.high === right.high && left.highOpen)
      result.push({
        low: isLeftLow ? left.low : right.low,
        lowOpen: isLeftLow ? left.lowOpen : right.lowOpen,
        high: isLeftHigh ? left.high : right.high,
        highOpen: isLeftHigh ? left.highOpen : right.highOpen,
      })
    }
  }
  return normalized(result)
}

function isNear(a: number, b: number): boolean {
  if (a === b) return true
  if (!Number.isFinite(a) || !Number.isFinite(b)) return false
  return Math.abs(a - b) <= MAX_TOLERANCE * Math.max(Math.abs(a), Math.abs(b), 1e-6)
}
