import type { Budget } from './budget.ts'
import { isName } from './latex-parser.ts'
import { constantFactor, numbersEqual } from './numbers-equal.ts'
import { NoValue } from './numeric.ts'
import { realSetsEqual, solutionsOf } from './real-sets.ts'
import {
  isCollection,
  isRelation,
  isSame,
  type Node,
  negated,
  type Relation,
  type RelationOp,
} from './tree.ts'

type Chain = Extract<Node, { kind: 'chain' }>
type Collection = Extract<Node, { kind: 'set' | 'tuple' }>

/** Maximum number of elements of a set or tuple. Sets are compared in any order, which takes n² comparisons. */
const MAX_ELEMENTS = 64

const flipped: Record<RelationOp, RelationOp> = {
  '=': '=',
  '≠': '≠',
  '<': '>',
  '>': '<',
  '≤': '≥',
  '≥': '≤',
}

/** The supported options of Math-Verify's `verify`. */
export interface VerifyOptions {
  /**
   * Whether the answer -2 ≤ x ≤ 7 equals the ground truth x ∈ [-2, 7]. The answer x ∈ [-2, 7] always equals the ground
   * truth -2 ≤ x ≤ 7.
   */
  allowSetRelation?: boolean
}

/**
 * Returns whether an answer equals the ground truth. As in Math-Verify's `verify`, the two cannot be swapped: if the
 * ground truth is a value, an answer such as `x = 5` counts as the value 5.
 * @throws TooLarge, OutOfBudget
 */
export function answersEqual(
  goldAnswer: Node,
  answer: Node,
  budget: Budget,
  options: VerifyOptions = {},
): boolean {
  budget.step()
  let gold = asAssignment(goldAnswer)
  let given = asAssignment(answer)
  if (isEquation(given) && !isEquation(gold)) given = lastRelation(given).right
  else if (isAssignment(gold) && !isEquation(given)) gold = lastRelation(gold).right

  if (isRelation(gold) && isCollection(given)) gold = solutionsOf(gold) ?? gold
  if (options.allowSetRelation && isRelation(given) && isCollection(gold)) {
    given = solutionsOf(given) ?? given
  }
  if (isSame(gold, given)) return true
  if (isRelation(gold) && isRelation(given)) return relationsEqual(gold, given, budget, options)
  if (isCollection(gold) || isCollection(given)) {
    return collectionsEqual(gold, given, budget, options)
  }
  if (isRelation(gold) || isRelation(given)) return false
  const wordGold = wordOf(gold)
  const wordGiven = wordOf(given)
  const isWord = gold.kind === 'symbol' || given.kind === 'symbol'
  if (isWord && wordGold !== null && wordGiven !== null) return wordGold === wordGiven
  return numbersEqual(gold, given, budget)
}

function asAssignment(node: Node): Node {
  if (node.kind !== 'chain' || !isAssignment(node)) return node
  return {
    kind: 'relation',
    op: '=',
    left: node.parts[0]!.left,
    right: node.parts.at(-1)!.right,
  }
}

function isEquation(node: Node): node is Relation | Chain {
  if (node.kind === 'chain') return node.parts.every(({ op }) => op === '=')
  return node.kind === 'relation' && node.op === '='
}

function isAssignment(node: Node): node is Relation | Chain {
  if (!isEquation(node)) return false
  return isName(node.kind === 'chain' ? node.parts[0]!.left : node.left)
}

function lastRelation(node: Relation | Chain): Relation {
  return node.kind === 'chain' ? node.parts.at(-1)! : node
}

/**
 * The letters of a name or of a product of letters, else null: `Evelyn` in LaTeX is a product, `\text{Evelyn}` a name.
 */
function wordOf(node: Node): string | null {
  if (node.kind === 'symbol') return node.name.replaceAll(/[{}]|\\/g, '')
  if (node.kind === 'constant') return node.name
  if (node.kind !== 'product') return null
  let word = ''
  for (const part of node.parts) {
    const letters = part.kind === 'symbol' || part.kind === 'constant' ? part.name : null
    if (letters === null) return null
    word += letters
  }
  return word
}

function relationsEqual(
  gold: Relation | Chain,
  given: Relation | Chain,
  budget: Budget,
  options: VerifyOptions,
): boolean {
  if (gold.kind === 'chain' || given.kind === 'chain') {
    if (gold.kind !== 'chain' || given.kind !== 'chain') return false
    if (gold.parts.length !== given.parts.length) return false
    const isEqual = (parts: readonly Relation[]) =>
      gold.parts.every((part, at) => relationsEqual(part, parts[at]!, budget, options))
    return isEqual(given.parts) || isEqual(given.parts.toReversed().map(turned))
  }
  if (gold.op === given.op) {
    if (sidesEqual(gold, given, budget, options)) return true
  } else if (gold.op === flipped[given.op] && sidesEqual(gold, turned(given), budget, options)) {
    return true
  }
  return differencesProportional(gold, given, budget)
}

function turned({ op, left, right }: Relation): Relation {
  return { kind: 'relation', op: flipped[op], left: right, right: left }
}

function sidesEqual(a: Relation, b: Relation, budget: Budget, options: VerifyOptions): boolean {
  return (
    answersEqual(a.left, b.left, budget, options) && answersEqual(a.right, b.right, budget, options)
  )
}

/** Whether left side minus right side is the same in both relations, up to a constant factor. */
function differencesProportional(gold: Relation, given: Relation, budget: Budget): boolean {
  const sides = [gold.left, gold.right, given.left, given.right]
  if (sides.some((side) => isCollection(side) || isRelation(side))) return false
  let factor: number | null
  try {
    factor = constantFactor(difference(gold), difference(given), budget)
  } catch (error) {
    if (error instanceof NoValue) return false
    throw error
  }
  if (factor === null) return false
  if (gold.op === '=' || gold.op === '≠') return gold.op === given.op
  return factor > 0 ? gold.op === given.op : gold.op === flipped[given.op]
}

function difference({ left, right }: Relation): Node {
  return { kind: 'sum', parts: [left, negated(right)] }
}

function collectionsEqual(
  gold: Node,
  given: Node,
  budget: Budget,
  options: VerifyOptions,
): boolean {
  const left: Node = isCollection(gold) ? gold : { kind: 'set', parts: [gold] }
  const right: Node = isCollection(given) ? given : { kind: 'set', parts: [given] }
  if (left.kind === 'interval' && right.kind === 'interval') {
    return (
      openAt(left.low, left.lowOpen) === openAt(right.low, right.lowOpen) &&
      openAt(left.high, left.highOpen) === openAt(right.high, right.highOpen) &&
      answersEqual(left.low, right.low, budget, options) &&
      answersEqual(left.high, right.high, budget, options)
    )
  }
  if (left.kind !== 'tuple' && right.kind !== 'tuple' && realSetsEqual(left, right, budget)) {
    return true
  }
  if (left.kind === 'setOperation' && right.kind === 'setOperation' && left.op === right.op) {
    return (
      collectionsEqual(left.left, right.left, budget, options) &&
      collectionsEqual(left.right, right.right, budget, options)
    )
  }
  // (1, 2) is parsed as an interval. Compared with a set or tuple, it is a pair.
  const goldList = asList(left, right)
  const givenList = asList(right, left)
  if (goldList === null || givenList === null) return false
  if (goldList.parts.length !== givenList.parts.length) return false
  if (goldList.parts.length > MAX_ELEMENTS) return false
  if (goldList.kind === 'set') return setsEqual(goldList, givenList, budget, options)
  return goldList.parts.every((part, at) =>
    answersEqual(part, givenList.parts[at]!, budget, options),
  )
}

/** Whether an end of an interval is open. An end at infinity is always open. */
function openAt(end: Node, isOpen: boolean): boolean {
  const isInfinite =
    (end.kind === 'constant' && end.name === 'infinity') ||
    (end.kind === 'product' &&
      end.parts.some((part) => part.kind === 'constant' && part.name === 'infinity'))
  return isOpen || isInfinite
}

function asList(node: Node, other: Node): Collection | null {
  if (node.kind === 'set' || node.kind === 'tuple') return node
  const isPair =
    node.kind === 'interval' &&
    node.lowOpen &&
    node.highOpen &&
    (other.kind === 'set' || other.kind === 'tuple')
  return isPair ? { kind: 'tuple', parts: [node.low, node.high] } : null
}

function setsEqual(
  gold: Collection,
  given: Collection,
  budget: Budget,
  options: VerifyOptions,
): boolean {
  const left = [...given.parts]
  return gold.parts.every((part) => {
    const at = left.findIndex((other) => answersEqual(part, other, budget, options))
    if (at >= 0) left.splice(at, 1)
    return at >= 0
  })
}
