import { type Checks, IndexedHeap } from '../indexed-heap.ts'
import {
  Entry,
  type FairItem,
  type Flow,
  Group,
  Lane,
  type PriorityClass,
} from './fair-queue-parts.ts'

export type { FairItem, PriorityClass } from './fair-queue-parts.ts'

/** Weights of the priority classes, in the order that breaks ties between them. */
const CLASS_WEIGHTS: Record<PriorityClass, number> = { interactive: 4, step: 3, backfill: 1 }
/** Maximum number of items, groups and runs that one filtered search checks. That many checks take about 20 µs. */
const MAX_CHECKS = 512

export interface FairQueueOptions {
  maxSamples?: number
  maxBytes?: number
}

/**
 * The waiting items of one pool, in the order in which they should be sent:
 *
 *     class   4 : 3 : 1 in tokens
 *     run     equal in tokens, or by `runWeight`
 *     group   earliest deadline · lowest order · begun groups first · most work (within 2,048 items of the run)
 *     item    earliest deadline · longest first
 *
 * Shares follow start-time fair queueing: every class and run has a virtual clock. Taking an item advances the clocks
 * of its class and run by the item's tokens divided by the weight. The class and run with the slowest clocks are next.
 * A run that becomes active again starts from the slowest clock, or from its own clock if that is ahead, so idle time
 * gives no priority.
 */
export class FairQueue<T extends FairItem> {
  readonly #maxSamples: number
  readonly #maxBytes: number
  readonly #lanes: Record<PriorityClass, Lane<T>> = {
    interactive: new Lane(CLASS_WEIGHTS.interactive),
    step: new Lane(CLASS_WEIGHTS.step),
    backfill: new Lane(CLASS_WEIGHTS.backfill),
  }
  readonly #inOrder = Object.values(this.#lanes)
  readonly #entries = new Map<T, Entry<T>>()
  readonly #groups = new Map<string, Group<T>>()
  readonly #begun = new IndexedHeap<Group<T>>(
    (a, b) => (a.tokens !== b.tokens ? a.tokens > b.tokens : a.begun < b.begun),
    (group, index) => {
      group.workIndex = index
    },
  )
  /**
   * The queue's clock: the lowest `virtual` of its classes when it was last advanced. A class that was empty starts
   * from this value.
   */
  #now = 0
  #tokens = 0
  #bytes = 0
  #numbers = 0

  constructor(options: FairQueueOptions = {}) {
    this.#maxSamples = options.maxSamples ?? Number.POSITIVE_INFINITY
    this.#maxBytes = options.maxBytes ?? Number.POSITIVE_INFINITY
  }

  get size(): number {
    return this.#entries.size
  }

  get tokens(): number {
    return this.#tokens
  }

  get bytes(): number {
    return this.#bytes
  }

  sizeOf(priorityClass: PriorityClass): number {
    return this.#lanes[priorityClass].size
  }

  get remembered(): { runs: number; groups: number } {
    let runs = 0
    for (const lane of this.#inOrder) runs += lane.runs
    return { runs, groups: this.#groups.size }
  }

  has(item: T): boolean {
    return this.#entries.has(item)
  }

  push(item: T): boolean {
    const bytes = item.bytes !== undefined && item.bytes > 0 ? item.bytes : 0
    if (this.size >= this.#maxSamples || this.#bytes + bytes > this.#maxBytes) return false
    const flow = this.#flowOf(item)
    const group = this.#groupOf(item, flow)
    const entry = new Entry(item, group, ++this.#numbers)
    this.#entries.set(item, entry)
    flow.size++
    flow.pushed++
    flow.lane.size++
    group.tokens += entry.tokens
    this.#tokens += entry.tokens
    this.#bytes += entry.bytes
    group.entries.push(entry)
    if (group.index < 0) flow.fresh.push(group)
    else this.#groupChanged(group)
    if (flow.index < 0) flow.lane.active.push(flow)
    return true
  }

  /**
   * Returns the next item without taking it. If `accept` is given, returns the first accepted item, or null if 512
   * checks find none.
   */
  peek(accept?: (item: T) => boolean): T | null {
    const checks = { left: MAX_CHECKS }
    return this.#firstOfLanes((lane) => {
      if (accept === undefined) return (lane.active.first as Flow<T>).first
      let found: Entry<T> | null = null
      lane.active.firstWhere((flow) => {
        const entry = flow.find(accept, checks)
        if (entry !== null) found = entry
        return entry !== null
      }, checks)
      return found
    })
  }

  /** Returns the next item that has no group or whose group was not begun, or null if there is none. */
  peekUnbegun(): T | null {
    const checks: Checks = { left: Number.POSITIVE_INFINITY }
    return this.#firstOfLanes((lane) => {
      const flow = lane.active.firstWhere(({ fresh }) => fresh.size > 0, checks)
      return flow === null ? null : (flow.fresh.first as Group<T>).first
    })
  }

  firstOfGroup(group: string): T | null {
    return this.#groups.get(group)?.first.item ?? null
  }

  /**
   * Returns the begun group with the most work left, or null. Another server saves the most time by helping with this
   * group.
   */
  heaviestGroup(): string | null {
    return this.#begun.first?.name ?? null
  }

  samplesOfGroup(group: string): number {
    let samples = 0
    for (let each = this.#groups.get(group) ?? null; each !== null; each = each.namesake) {
      samples += each.entries.size
    }
    return samples
  }

  /** Takes the given item, or the next one, and charges its run and class. Null if the item is not queued. */
  take(item: T | null = this.peek()): T | null {
    const entry = item === null ? undefined : this.#entries.get(item)
    if (entry === undefined) return null
    const { group, tokens } = entry
    const { flow } = group
    const { lane } = flow
    this.#tick()
    lane.tick()
    flow.virtual += tokens / flow.weight
    lane.active.moved(flow.index)
    lane.virtual += tokens / lane.weight
    if (group.begun === 0 && group.name !== undefined && group.entries.size > 1) {
      flow.fresh.remove(group.index)
      group.begun = ++this.#numbers
      flow.begun.push(group)
      this.#begun.push(group)
    }
    this.#detach(entry)
    return entry.item
  }

  takeOfGroup(group: string): T | null {
    return this.take(this.firstOfGroup(group))
  }

  /** Removes an item without charging its run and class. Returns false if the item is not queued. */
  remove(item: T): boolean {
    const entry = this.#entries.get(item)
    if (entry === undefined) return false
    this.#detach(entry)
    return true
  }

  /** Marks a group as not begun, because its server takes no more samples for now. */
  releaseGroup(name: string): void {
    for (let group = this.#groups.get(name) ?? null; group !== null; group = group.namesake) {
      if (group.begun === 0) continue
      group.flow.begun.remove(group.index)
      this.#begun.remove(group.workIndex)
      group.begun = 0
      group.flow.fresh.push(group)
    }
  }

  /** All waiting items, unordered. They may be removed during iteration. */
  items(): IterableIterator<T> {
    return this.#entries.keys()
  }

  #firstOfLanes(firstOf: (lane: Lane<T>) => Entry<T> | null): T | null {
    let tried = 0
    for (let n = 0; n < this.#inOrder.length; n++) {
      let next = -1
      for (let i = 0; i < this.#inOrder.length; i++) {
        const lane = this.#inOrder[i] as Lane<T>
        if (lane.size === 0 || (tried >> i) & 1) continue
        if (next < 0 || lane.virtual < (this.#inOrder[next] as Lane<T>).virtual) next = i
      }
      if (next < 0) return null
      const entry = firstOf(this.#inOrder[next] as Lane<T>)
      if (entry !== null) return entry.item
      tried |= 1 << next
    }
    return null
  }

  #flowOf(item: T): Flow<T> {
    const lane = this.#lanes[item.priorityClass]
    if (lane.size === 0) {
      this.#tick()
      lane.virtual = Math.max(lane.virtual, this.#now)
    }
    const flow = lane.flowOf(item.run, ++this.#numbers)
    const { runWeight = 1 } = item
    flow.weight = runWeight > 0 && runWeight < Number.POSITIVE_INFINITY ? runWeight : 1
    return flow
  }

  #tick(): void {
    let slowest = Number.POSITIVE_INFINITY
    for (const { size, virtual } of this.#inOrder) {
      if (size > 0 && virtual < slowest) slowest = virtual
    }
    if (slowest < Number.POSITIVE_INFINITY) this.#now = Math.max(this.#now, slowest)
  }

  #groupOf(item: T, flow: Flow<T>): Group<T> {
    const { group: name } = item
    if (name === undefined) return new Group(item, flow, ++this.#numbers)
    const first = this.#groups.get(name) ?? null
    for (let each = first; each !== null; each = each.namesake) if (each.flow === flow) return each
    const group = new Group(item, flow, ++this.#numbers)
    group.namesake = first
    this.#groups.set(name, group)
    return group
  }

  #groupChanged(group: Group<T>): void {
    group.flow.heapOf(group).moved(group.index)
    if (group.workIndex >= 0) this.#begun.moved(group.workIndex)
  }

  #detach(entry: Entry<T>): void {
    const { group } = entry
    const { flow } = group
    const { lane } = flow
    this.#entries.delete(entry.item)
    this.#tokens = this.size === 0 ? 0 : this.#tokens - entry.tokens
    this.#bytes = this.size === 0 ? 0 : this.#bytes - entry.bytes
    group.tokens -= entry.tokens
    flow.size--
    lane.size--
    // The heaps compare groups by their first item, so an emptied group leaves them before its last item is removed.
    if (group.entries.size === 1) {
      flow.heapOf(group).remove(group.index)
      if (group.workIndex >= 0) this.#begun.remove(group.workIndex)
      group.entries.remove(entry.index)
      if (group.name !== undefined) this.#forgetGroup(group.name, group)
    } else {
      group.entries.remove(entry.index)
      this.#groupChanged(group)
    }
    if (flow.size === 0) lane.rest(flow)
    if (this.size > 0) return
    this.#now = 0
    for (const each of this.#inOrder) each.virtual = 0
  }

  #forgetGroup(name: string, group: Group<T>): void {
    let before = this.#groups.get(name) as Group<T>
    if (before !== group) {
      while (before.namesake !== group) before = before.namesake as Group<T>
      before.namesake = group.namesake
    } else if (group.namesake === null) this.#groups.delete(name)
    else this.#groups.set(name, group.namesake)
  }
}
