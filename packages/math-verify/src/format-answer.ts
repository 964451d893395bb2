import { type Node, partsOf } from './tree.ts'

const MAX_LENGTH = 400

/** Formats a parsed answer for readers: `1/2`, `x^2 + 1`, `{1, 2}`, `[0, 1)`. */
export function formatAnswer(node: Node): string {
  const text = written(node)
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text
}

function written(node: Node): string {
  switch (node.kind) {
    case 'number': {
      const { n, d } = node.value
      if (d === 1n) return short(n)
      const share = `${short(n)}/${short(d)}`
      return node.isDecimal ? `${Number(n) / Number(d)}` : share
    }
    case 'constant':
      return { pi: 'π', e: 'e', i: 'i', infinity: '∞' }[node.name]
    case 'symbol':
      return node.name
    case 'sum':
      return node.parts.map(written).join(' + ').replaceAll('+ -', '- ')
    case 'product':
      return node.parts.map(grouped).join('·')
    case 'power':
      return `${grouped(node.base)}^${grouped(node.exponent)}`
    case 'call':
      return `${node.name}(${node.parts.map(written).join(', ')})`
    case 'matrix':
      return `[${node.rows.map((row) => row.map(written).join(', ')).join('; ')}]`
    case 'relation':
      return `${written(node.left)} ${node.op} ${written(node.right)}`
    case 'chain':
      return node.parts.map(written).join(' and ')
    case 'set':
      return `{${node.parts.map(written).join(', ')}}`
    case 'tuple':
      return `(${node.parts.map(written).join(', ')})`
    case 'interval':
      return `${node.lowOpen ? '(' : '['}${written(node.low)}, ${written(node.high)}${node.highOpen ? ')' : ']'}`
    case 'setOperation': {
      const sign = { union: '∪', intersection: '∩', difference: '∖' }[node.op]
      return `${written(node.left)} ${sign} ${written(node.right)}`
    }
    case 'numberSet':
      return { naturals: 'ℕ', integers: 'ℤ', rationals: 'ℚ', reals: 'ℝ', complexes: 'ℂ' }[node.name]
  }
}

function grouped(node: Node): string {
  const text = written(node)
  const isLone = partsOf(node).length < 2 && !/[/-]/.test(text)
  return isLone || node.kind === 'call' || node.kind === 'power' ? text : `(${text})`
}

/** Describes huge numbers by their length, because converting them to decimal is slow. */
function short(value: bigint): string {
  const digits = value.toString(16).length
  return digits > 64 ? `a number of about ${Math.round(digits * 1.204)} digits` : value.toString()
}
