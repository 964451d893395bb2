import type { Draw } from './random.ts'

export type Operand = number | { step: number }

export interface Step {
  /** The words after the result of the step, for example `eggs are left`. */
  what: string
  operator: '+' | '-' | '*' | '/'
  left: Operand
  right: Operand
}

/** A word problem. The result of its last step is the answer. */
export interface Problem {
  question: string
  steps: Step[]
}

const NAMES = ['Mara', 'Ivo', 'Lena', 'Tarek', 'Noor', 'Jonas', 'Wren', 'Sefa', 'Odile', 'Bram']
const step = (index: number): Operand => ({ step: index })

export function resultOf(found: Step, earlier: readonly number[]): number {
  const left = operandValue(found.left, earlier)
  const right = operandValue(found.right, earlier)
  switch (found.operator) {
    case '+':
      return left + right
    case '-':
      return left - right
    case '*':
      return left * right
    case '/':
      return left / right
  }
}

export function operandValue(operand: Operand, earlier: readonly number[]): number {
  return typeof operand === 'number' ? operand : earlier[operand.step]!
}

/** All intermediate results are positive integers. */
export const WORD_PROBLEMS: readonly ((draw: Draw) => Problem)[] = [
  (draw) => {
    const [trays, rolls, price] = [draw.integer(4, 12), draw.integer(6, 24), draw.integer(2, 5)]
    const given = draw.integer(3, 20)
    return {
      question: `${draw.pick(NAMES)} bakes ${trays} trays of ${rolls} rolls, gives ${given} rolls to the neighbours and sells the rest at the market for $${price} each. How many dollars does the market bring in?`,
      steps: [
        { what: 'rolls are baked', operator: '*', left: trays, right: rolls },
        { what: 'rolls are left to sell', operator: '-', left: step(0), right: given },
        { what: 'dollars come in', operator: '*', left: step(1), right: price },
      ],
    }
  },
  (draw) => {
    const [rows, seats, fare] = [draw.integer(9, 18), draw.integer(3, 5), draw.integer(6, 14)]
    const empty = draw.integer(2, 11)
    return {
      question: `A coach has ${rows} rows of ${seats} seats. On today's trip ${empty} seats stay empty, and every passenger pays $${fare}. How much do the passengers pay together, in dollars?`,
      steps: [
        { what: 'seats are in the coach', operator: '*', left: rows, right: seats },
        { what: 'seats are taken', operator: '-', left: step(0), right: empty },
        { what: 'dollars are paid', operator: '*', left: step(1), right: fare },
      ],
    }
  },
  (draw) => {
    const [weeks, saved, friends] = [draw.integer(5, 15), draw.integer(12, 40), draw.integer(2, 6)]
    const share = draw.integer(10, 30)
    const spent = weeks * saved - friends * share
    if (spent <= 0) return WORD_PROBLEMS[2]!(draw)
    return {
      question: `${draw.pick(NAMES)} saves $${saved} a week for ${weeks} weeks, spends $${spent} on a tent and splits what is left evenly among ${friends} friends. How many dollars does each friend get?`,
      steps: [
        { what: 'dollars are saved', operator: '*', left: weeks, right: saved },
        { what: 'dollars are left', operator: '-', left: step(0), right: spent },
        { what: 'dollars go to each friend', operator: '/', left: step(1), right: friends },
      ],
    }
  },
  (draw) => {
    const [length, width, plants] = [draw.integer(6, 14), draw.integer(3, 9), draw.integer(4, 9)]
    const frost = draw.integer(5, 40)
    return {
      question: `A garden bed is ${length} metres long and ${width} metres wide, and ${plants} seedlings are set on every square metre. Frost kills ${frost} of them. How many seedlings are still alive?`,
      steps: [
        { what: 'square metres are planted', operator: '*', left: length, right: width },
        { what: 'seedlings are set', operator: '*', left: step(0), right: plants },
        { what: 'seedlings are alive', operator: '-', left: step(1), right: frost },
      ],
    }
  },
  (draw) => {
    const [perDay, days, pace] = [draw.integer(14, 30), draw.integer(4, 9), draw.integer(18, 40)]
    const left = pace * draw.integer(3, 8)
    return {
      question: `${draw.pick(NAMES)} reads ${perDay} pages a day for ${days} days of a book that has ${perDay * days + left} pages, and from then on ${pace} pages a day. How many more days does the rest take?`,
      steps: [
        { what: 'pages are read', operator: '*', left: perDay, right: days },
        { what: 'pages are left', operator: '-', left: perDay * days + left, right: step(0) },
        { what: 'days are needed', operator: '/', left: step(1), right: pace },
      ],
    }
  },
  (draw) => {
    const [minutes, pump, before] = [
      draw.integer(12, 45),
      draw.integer(18, 60),
      draw.integer(80, 400),
    ]
    const leak = draw.integer(2, 9)
    return {
      question: `A tank holds ${before} litres. For ${minutes} minutes a pump adds ${pump} litres a minute while a leak loses ${leak} litres a minute. How many litres are in the tank then?`,
      steps: [
        { what: 'litres a minute are gained', operator: '-', left: pump, right: leak },
        { what: 'litres are gained', operator: '*', left: step(0), right: minutes },
        { what: 'litres are in the tank', operator: '+', left: step(1), right: before },
      ],
    }
  },
  (draw) => {
    const [shirts, shirt, caps, cap] = [
      draw.integer(2, 6),
      draw.integer(11, 24),
      draw.integer(2, 7),
      draw.integer(5, 10),
    ]
    const paid = Math.ceil((shirts * shirt + caps * cap + 1) / 50) * 50
    return {
      question: `${draw.pick(NAMES)} buys ${shirts} shirts at $${shirt} and ${caps} caps at $${cap} and pays with $${paid}. How many dollars of change are due?`,
      steps: [
        { what: 'dollars are for the shirts', operator: '*', left: shirts, right: shirt },
        { what: 'dollars are for the caps', operator: '*', left: caps, right: cap },
        { what: 'dollars are to pay', operator: '+', left: step(0), right: step(1) },
        { what: 'dollars of change are due', operator: '-', left: paid, right: step(2) },
      ],
    }
  },
  (draw) => {
    const [fast, fastHours, slow, slowHours] = [
      draw.integer(70, 110),
      draw.integer(2, 5),
      draw.integer(30, 60),
      draw.integer(1, 4),
    ]
    return {
      question: `A lorry drives ${fastHours} hours at ${fast} kilometres an hour and then ${slowHours} hours at ${slow} kilometres an hour. How many kilometres does it cover?`,
      steps: [
        { what: 'kilometres are covered first', operator: '*', left: fastHours, right: fast },
        { what: 'kilometres are covered then', operator: '*', left: slowHours, right: slow },
        { what: 'kilometres are covered in all', operator: '+', left: step(0), right: step(1) },
      ],
    }
  },
  (draw) => {
    const [sheep, wool, price] = [draw.integer(20, 60), draw.integer(3, 6), draw.integer(8, 19)]
    const cost = draw.integer(90, 300)
    return {
      question: `A farm shears ${sheep} sheep, and each gives ${wool} kilograms of wool that sells at $${price} a kilogram. Shearing costs $${cost} in all. How many dollars are earned?`,
      steps: [
        { what: 'kilograms of wool are sold', operator: '*', left: sheep, right: wool },
        { what: 'dollars are paid for it', operator: '*', left: step(0), right: price },
        { what: 'dollars are earned', operator: '-', left: step(1), right: cost },
      ],
    }
  },
  (draw) => {
    const [box, boxes, across] = [draw.integer(6, 15), draw.integer(4, 12), draw.integer(2, 6)]
    const down = box * draw.integer(2, 5)
    return {
      question: `A wall needs ${across * boxes} columns of ${down} tiles, and a box holds ${box} tiles. ${across} boxes are in the cellar already. How many boxes are to be bought?`,
      steps: [
        { what: 'tiles are needed', operator: '*', left: across * boxes, right: down },
        { what: 'boxes are needed', operator: '/', left: step(0), right: box },
        { what: 'boxes are to be bought', operator: '-', left: step(1), right: across },
      ],
    }
  },
  (draw) => {
    const [crates, bottles, broken, pack] = [
      draw.integer(8, 20),
      draw.integer(9, 16),
      draw.integer(1, 5),
      draw.integer(3, 6),
    ]
    const whole = bottles * crates
    const good = Math.floor((whole - broken) / pack) * pack
    return {
      question: `${crates} crates of ${bottles} bottles arrive, ${whole - good} bottles are broken, and the others are sold in packs of ${pack}. How many packs are there?`,
      steps: [
        { what: 'bottles arrive', operator: '*', left: crates, right: bottles },
        { what: 'bottles are whole', operator: '-', left: step(0), right: whole - good },
        { what: 'packs are there', operator: '/', left: step(1), right: pack },
      ],
    }
  },
  (draw) => {
    const [hours, rate, extra, extraRate] = [
      draw.integer(25, 40),
      draw.integer(14, 26),
      draw.integer(2, 9),
      draw.integer(27, 38),
    ]
    return {
      question: `${draw.pick(NAMES)} works ${hours} hours a week at $${rate} an hour and ${extra} hours on Saturdays at $${extraRate} an hour. How many dollars are that in 4 weeks?`,
      steps: [
        { what: 'dollars are for the weekdays', operator: '*', left: hours, right: rate },
        { what: 'dollars are for Saturday', operator: '*', left: extra, right: extraRate },
        { what: 'dollars are for a week', operator: '+', left: step(0), right: step(1) },
        { what: 'dollars are for 4 weeks', operator: '*', left: step(2), right: 4 },
      ],
    }
  },
]
