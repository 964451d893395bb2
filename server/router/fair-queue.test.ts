import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type FairItem, FairQueue, type PriorityClass } from './fair-queue.ts'
import { seededRandom } from './policies/seeded-random.ts'

interface Item extends FairItem {
  name: string
}

let names = 0
function item(facts: Partial<Item> = {}): Item {
  return {
    name: `${names++}`,
    tokens: 100,
    run: 'run',
    priorityClass: 'step',
    deadlineAtMs: Number.POSITIVE_INFINITY,
    group: undefined,
    ...facts,
  }
}

const group = (name: string, tokens: number[], facts: Partial<Item> = {}) =>
  tokens.map((each, i) => item({ name: `${name}${i}`, group: name, tokens: each, ...facts }))

function queueOf(items: Item[]): FairQueue<Item> {
  const queue = new FairQueue<Item>()
  for (const each of items) expect(queue.push(each)).toBe(true)
  return queue
}

function drain(queue: FairQueue<Item>): string[] {
  const order: string[] = []
  for (let next = queue.peek(); next !== null; next = queue.peek()) {
    expect(queue.take()).toBe(next)
    order.push(next.name)
  }
  expect(queue.take()).toBeNull()
  return order
}

/** Each kind's share of the tokens taken while all kinds had waiting items. */
function shares(queue: FairQueue<Item>, kinds: string[], kindOf: (item: Item) => string) {
  const taken = new Map(kinds.map((kind) => [kind, 0]))
  const left = new Map(kinds.map((kind) => [kind, 0]))
  for (const each of queue.items()) left.set(kindOf(each), (left.get(kindOf(each)) ?? 0) + 1)
  while (kinds.every((kind) => (left.get(kind) ?? 0) > 0)) {
    const next = queue.take() as Item
    const kind = kindOf(next)
    taken.set(kind, (taken.get(kind) ?? 0) + next.tokens)
    left.set(kind, (left.get(kind) ?? 0) - 1)
  }
  const total = [...taken.values()].reduce((sum, n) => sum + n, 0)
  return kinds.map((kind) => (taken.get(kind) ?? 0) / total)
}

const lognormal = (random: () => number, mean: number) =>
  Math.round(
    mean *
      Math.exp(0.8 * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())),
  ) + 20

describe('order within a run', () => {
  test('items come by deadline in whole seconds, those without a deadline last', () => {
    const queue = queueOf([
      item({ name: 'never', tokens: 900 }),
      item({ name: 'late', deadlineAtMs: 90_000, tokens: 800 }),
      item({ name: 'soon, short', deadlineAtMs: 30_000, tokens: 10 }),
      item({ name: 'soon, long', deadlineAtMs: 30_999, tokens: 300 }),
      item({ name: 'no number', deadlineAtMs: Number.NaN, tokens: 5 }),
    ])
    expect(drain(queue)).toEqual(['soon, long', 'soon, short', 'late', 'never', 'no number'])
  })

  test('the group with the most work comes first and is finished, longest item first', () => {
    const queue = queueOf([
      ...group('a', [10, 30, 20]),
      ...group('b', [50, 60, 40]),
      item({ name: 'lone', tokens: 100 }),
      ...group('c', [90]),
    ])
    expect(drain(queue)).toEqual(['b1', 'b0', 'b2', 'lone', 'c0', 'a1', 'a2', 'a0'])
  })

  test('equal items come in order of arrival', () => {
    const items = Array.from({ length: 20 }, (_, i) => item({ name: `${i}` }))
    expect(drain(queueOf(items))).toEqual(items.map(({ name }) => name))
  })

  test('a small item is overtaken only by items that arrive soon after it', () => {
    const queue = queueOf([item({ name: 'small', tokens: 1 })])
    let taken = 0
    for (; taken < 20_000; taken++) {
      queue.push(item({ tokens: 500 }))
      if ((queue.take() as Item).name === 'small') break
    }
    expect(taken).toBeLessThan(2_100)
  })
})

describe('batches of a run', () => {
  // A trainer may submit one step ahead. Without the batch order, the small groups of a step would wait for the large
  // groups of the next step, and the trainer would wait for the small groups.
  test('the earlier batch comes first, regardless of the size of later groups', () => {
    const queue = queueOf([
      ...group('small', [10, 10], { order: 1 }),
      ...group('large', [90, 90], { order: 2 }),
    ])
    queue.takeOfGroup('large')
    expect(drain(queue)).toEqual(['small0', 'small1', 'large1'])
  })

  test('an earlier deadline comes before an earlier batch, and a search returns only accepted items', () => {
    const queue = queueOf([
      item({ name: 'earlier', order: 1 }),
      item({ name: 'due', order: 2, deadlineAtMs: 5_000 }),
      item({ name: 'later', order: 3 }),
    ])
    expect(queue.peek(({ name }) => name !== 'due')?.name).toBe('earlier')
    expect(drain(queue)).toEqual(['due', 'earlier', 'later'])
  })
})

describe('shares', () => {
  test('two runs, one with ten times as many samples, get equal tokens while both wait', () => {
    const random = seededRandom(1)
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 5_500; i++) {
      const large = i % 11 !== 0
      queue.push(
        item({
          run: large ? 'large' : 'small',
          group: `${large ? 'l' : 's'}${Math.floor(i / 88)}`,
          tokens: lognormal(random, large ? 1_200 : 500),
        }),
      )
    }
    const [share = 0] = shares(queue, ['small', 'large'], ({ run }) => run)
    expect(share).toBeGreaterThan(0.45)
    expect(share).toBeLessThan(0.55)
  })

  test('runs get tokens by their weight', () => {
    const random = seededRandom(2)
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 4_000; i++) {
      const run = i % 2 === 0 ? 'three' : 'one'
      queue.push(item({ run, runWeight: run === 'three' ? 3 : 1, tokens: lognormal(random, 800) }))
    }
    const [share = 0] = shares(queue, ['three', 'one'], ({ run }) => run)
    expect(share).toBeGreaterThan(0.72)
    expect(share).toBeLessThan(0.78)
  })

  test('classes get 4 : 3 : 1, and a lone class gets everything', () => {
    const random = seededRandom(3)
    const classes: PriorityClass[] = ['backfill', 'step', 'interactive']
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 6_000; i++) {
      const priorityClass = classes[i % 3] as PriorityClass
      queue.push(item({ priorityClass, run: `${i % 7}`, tokens: lognormal(random, 600) }))
    }
    const parts = shares(queue, classes, ({ priorityClass }) => priorityClass)
    for (const [i, expected] of [1 / 8, 3 / 8, 4 / 8].entries()) {
      expect(Math.abs((parts[i] as number) - expected)).toBeLessThan(0.1 * expected)
    }
    expect(drain(queue).length).toBeGreaterThan(2_000)
  })

  test('a run that arrives late is served immediately, and gets an equal share from then on', () => {
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 2_000; i++) queue.push(item({ run: 'old' }))
    for (let i = 0; i < 1_000; i++) queue.take()
    for (let i = 0; i < 500; i++) queue.push(item({ run: 'new' }))
    expect([queue.take()?.run, queue.take()?.run].sort()).toEqual(['new', 'old'])
    const [share = 0] = shares(queue, ['new', 'old'], ({ run }) => run)
    expect(share).toBeCloseTo(0.5, 2)

    queue.push(item({ name: 'interactive', priorityClass: 'interactive' }))
    expect(queue.take()?.name).toBe('interactive')
  })

  test('a class that was alone for a long time is not penalized', () => {
    const queue = queueOf(
      Array.from({ length: 1_000 }, () => item({ priorityClass: 'interactive' })),
    )
    for (let i = 0; i < 990; i++) queue.take()
    for (let i = 0; i < 1_000; i++) queue.push(item({ priorityClass: 'backfill' }))
    for (let i = 0; i < 20; i++) queue.take()
    expect(queue.sizeOf('interactive')).toBe(0)
    for (let i = 0; i < 100; i++) queue.push(item({ priorityClass: 'interactive' }))
    const [share = 0] = shares(queue, ['interactive', 'backfill'], (each) => each.priorityClass)
    expect(share).toBeGreaterThan(0.75)
  })

  test('a run with one large sample after another gets no more than its share', () => {
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 4_000; i++) queue.push(item({ run: 'many', tokens: 100 }))
    const taken = { many: 0, single: 0 }
    queue.push(item({ run: 'single', tokens: 1_000 }))
    for (let i = 0; i < 2_000; i++) {
      const next = queue.take() as Item
      taken[next.run as 'many' | 'single'] += next.tokens
      if (next.run === 'single') queue.push(item({ run: 'single', tokens: 1_000 }))
    }
    expect(taken.single / (taken.many + taken.single)).toBeGreaterThan(0.45)
    expect(taken.single / (taken.many + taken.single)).toBeLessThan(0.55)
  })

  test('items taken out of order are charged', () => {
    const queue = queueOf([
      ...group('g', new Array<number>(100).fill(100), { run: 'a' }),
      ...Array.from({ length: 200 }, () => item({ run: 'b' })),
    ])
    for (let i = 0; i < 50; i++) expect(queue.takeOfGroup('g')?.run).toBe('a')
    for (let i = 0; i < 50; i++) expect(queue.take()?.run).toBe('b')
    const next = [queue.take()?.run, queue.take()?.run]
    expect(next.sort()).toEqual(['a', 'b'])
  })

  test('removed items are not charged', () => {
    const a = Array.from({ length: 50 }, () => item({ run: 'a' }))
    const queue = queueOf([...a, ...Array.from({ length: 20 }, () => item({ run: 'b' }))])
    for (const each of a.slice(10)) expect(queue.remove(each)).toBe(true)
    const [share] = shares(queue, ['a', 'b'], ({ run }) => run)
    expect(share).toBeCloseTo(0.5, 1)
  })
})

describe('groups', () => {
  test('a begun group continues before other groups, unless those are due earlier', () => {
    const queue = queueOf([...group('a', [10, 20, 30]), ...group('b', [500, 600])])
    expect(queue.takeOfGroup('a')?.name).toBe('a2')
    expect(queue.peek()?.name).toBe('a1')
    queue.push(item({ name: 'due', deadlineAtMs: 1_000 }))
    expect(drain(queue)).toEqual(['due', 'a1', 'a0', 'b1', 'b0'])
  })

  test('unbegun groups come in fair order', () => {
    const queue = queueOf([
      ...group('a', [90, 80], { run: 'a' }),
      ...group('b', [70, 60], { run: 'b' }),
      ...group('c', [50, 40], { run: 'a' }),
      item({ name: 'lone', run: 'b', tokens: 30 }),
    ])
    const begun: (string | undefined)[] = []
    for (let next = queue.peekUnbegun(); next !== null; next = queue.peekUnbegun()) {
      begun.push(queue.take(next)?.name)
    }
    expect(begun).toEqual(['a0', 'b0', 'lone', 'c0'])
    expect(queue.size).toBe(3)
  })

  test('the heaviest begun group is the one with the most work left', () => {
    const queue = queueOf([
      ...group('a', [50, 50, 50]),
      ...group('b', [60, 60]),
      ...group('c', [999]),
    ])
    expect(queue.heaviestGroup()).toBeNull()
    queue.takeOfGroup('a')
    queue.takeOfGroup('b')
    expect(queue.heaviestGroup()).toBe('a')
    queue.takeOfGroup('a')
    expect(queue.heaviestGroup()).toBe('b')
    queue.push(item({ name: 'more', group: 'a', tokens: 40 }))
    expect(queue.heaviestGroup()).toBe('a')
    expect(queue.samplesOfGroup('a')).toBe(2)
    queue.takeOfGroup('b')
    queue.takeOfGroup('a')
    queue.takeOfGroup('a')
    expect(queue.heaviestGroup()).toBeNull()
    expect(queue.takeOfGroup('a')).toBeNull()
    expect(queue.firstOfGroup('nowhere')).toBeNull()
  })

  test('the rest of a released group counts as not begun', () => {
    const queue = queueOf([...group('a', [50, 40]), ...group('b', [10, 10])])
    queue.takeOfGroup('a')
    expect(queue.peekUnbegun()?.name).toBe('b0')
    queue.releaseGroup('a')
    queue.releaseGroup('nowhere')
    expect(queue.heaviestGroup()).toBeNull()
    expect(queue.peekUnbegun()?.name).toBe('a1')
    expect(drain(queue)).toEqual(['a1', 'b0', 'b1'])
  })

  test('groups of two runs may have the same name', () => {
    const queue = queueOf([
      ...group('g', [10, 20], { run: 'a' }),
      ...group('g', [30, 40], { run: 'b' }),
      ...group('g', [50, 60], { run: 'c', priorityClass: 'backfill' }),
    ])
    expect(queue.samplesOfGroup('g')).toBe(6)
    const taken = Array.from({ length: 6 }, () => queue.takeOfGroup('g') as Item)
    expect(taken.map(({ run }) => run).sort()).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
    expect(queue.remembered).toEqual({ runs: 0, groups: 0 })
  })
})

describe('a filtered search', () => {
  test('returns the first accepted item and changes nothing', () => {
    const items = [
      ...group('a', [90, 10]),
      ...group('b', [50, 40], { run: 'b' }),
      item({ name: 'interactive', priorityClass: 'interactive' }),
    ]
    const queue = queueOf(items)
    expect(queue.peek((each) => each.group === 'b')?.name).toBe('b0')
    expect(queue.peek((each) => each.tokens < 50)?.name).toBe('a1')
    expect(queue.peek(() => false)).toBeNull()
    expect(drain(queue)).toEqual(drain(queueOf(items)))
  })

  test('ends after a fixed number of checks', () => {
    const queue = queueOf(Array.from({ length: 5_000 }, (_, i) => item({ run: `${i % 50}` })))
    let looked = 0
    queue.peek(() => {
      looked++
      return false
    })
    expect(looked).toBeLessThanOrEqual(512)
  })
})

describe('bounds', () => {
  test('limit the samples and bytes in the queue', () => {
    const queue = new FairQueue<Item>({ maxSamples: 3, maxBytes: 1_000 })
    const large = item({ bytes: 900 })
    expect(queue.push(large)).toBe(true)
    expect(queue.push(item({ bytes: 101 }))).toBe(false)
    expect(queue.push(item({ bytes: 100 }))).toBe(true)
    expect(queue.push(item())).toBe(true)
    expect(queue.push(item())).toBe(false)
    expect([queue.size, queue.bytes, queue.tokens]).toEqual([3, 1_000, 300])
    expect(queue.remove(large)).toBe(true)
    expect(queue.remove(large)).toBe(false)
    expect(queue.has(large)).toBe(false)
    expect(queue.push(item({ bytes: 900 }))).toBe(true)
  })

  test('hold with items of invalid size', () => {
    const odd = [0, -5, Number.NaN, Number.POSITIVE_INFINITY, 7]
    const queue = queueOf(
      odd.map((n, i) =>
        item({ tokens: n, bytes: n === 7 ? n : -n, runWeight: n, run: `${i % 2}` }),
      ),
    )
    expect(queue.tokens).toBe(11)
    expect(drain(queue).length).toBe(5)
  })
})

test('no item is lost or duplicated and no state remains after random operations', () => {
  const act = fc.tuple(
    fc.constantFrom('push', 'push', 'take', 'group', 'unbegun', 'remove', 'release'),
    fc.nat(999),
  )
  fc.assert(
    fc.property(fc.array(act, { maxLength: 200 }), (acts) => {
      const queue = new FairQueue<Item>()
      const waiting = new Set<Item>()
      const gone = (each: Item | null) => {
        if (each === null) return
        expect(waiting.delete(each)).toBe(true)
      }
      for (const [what, n] of acts) {
        const name = n % 4 === 0 ? undefined : `g${n % 5}`
        if (what === 'push') {
          const classes: PriorityClass[] = ['step', 'step', 'interactive', 'backfill']
          const next = item({
            run: `r${n % 3}`,
            group: name,
            tokens: n,
            priorityClass: classes[n % 4] as PriorityClass,
            deadlineAtMs: n % 5 === 0 ? n * 10 : Number.POSITIVE_INFINITY,
          })
          expect(queue.push(next)).toBe(true)
          waiting.add(next)
        } else if (what === 'take') {
          expect(queue.peek() === null).toBe(waiting.size === 0)
          gone(queue.take())
        } else if (what === 'group') gone(queue.takeOfGroup(`g${n % 5}`))
        else if (what === 'unbegun') {
          const next = queue.peekUnbegun()
          if (next !== null) gone(queue.take(next))
        } else if (what === 'remove') {
          const next = [...waiting][n % Math.max(1, waiting.size)]
          if (next === undefined) continue
          expect(queue.remove(next)).toBe(true)
          gone(next)
        } else queue.releaseGroup(`g${n % 5}`)
        expect(queue.size).toBe(waiting.size)
        expect(new Set(queue.items())).toEqual(waiting)
        const samples = [...waiting].filter(({ group }) => group === `g${n % 5}`).length
        expect(queue.samplesOfGroup(`g${n % 5}`)).toBe(samples)
      }
      const left = waiting.size
      expect(drain(queue).length).toBe(left)
      expect([queue.size, queue.tokens, queue.bytes]).toEqual([0, 0, 0])
      expect(queue.remembered).toEqual({ runs: 0, groups: 0 })
      expect(queue.heaviestGroup()).toBeNull()
    }),
    { numRuns: 200 },
  )
})

test('runs of one sample each do not accumulate', () => {
  const queue = new FairQueue<Item>()
  for (let i = 0; i < 20_000; i++) {
    queue.push(item({ run: `${i}`, tokens: 1 + (i % 900) }))
    if (queue.size > 20) queue.take()
    expect(queue.remembered.runs).toBeLessThan(300)
  }
})
