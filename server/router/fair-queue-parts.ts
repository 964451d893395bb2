import { type Checks, IndexedHeap } from '../indexed-heap.ts'

/** Deadlines within the same second are considered equal, because those of one batch differ by milliseconds. */
const DEADLINE_STEP_MS = 1_000
/**
 * A larger group overtakes an earlier one only if both arrived within the same block of this many items of their run.
 * Otherwise a stream of large groups would delay small groups forever.
 */
const OVERTAKEN_WITHIN = 2_048
/** Maximum number of idle runs (without waiting items) that a class remembers. Beyond it, half of them are removed. */
const MAX_RESTING_RUNS = 256

/** The properties of an item that a {@link FairQueue} uses; none may change while the item is queued. */
export interface FairItem {
  readonly tokens: number
  /** The item's run. Runs share capacity equally, or by `runWeight`. */
  readonly run: string
  readonly priorityClass: PriorityClass
  /** Deadline, on the clock of `performance.now()`, or infinite if there is none. */
  readonly deadlineAtMs: number
  readonly group: string | undefined
  /** Items with a lower number come first within their run. Equal for all items of a group. Default 0. */
  readonly order?: number
  /** Memory used by the item. If absent, its memory is not counted. */
  readonly bytes?: number
  /** Weight of the item's run relative to other runs of the same class. The run's newest item sets it. Default 1. */
  readonly runWeight?: number
}

/** The priority classes, which share capacity 4 : 3 : 1 in tokens. */
export type PriorityClass = 'interactive' | 'step' | 'backfill'

export class Entry<T extends FairItem> {
  readonly item: T
  readonly group: Group<T>
  readonly tokens: number
  readonly bytes: number
  readonly due: number
  readonly number: number
  index = -1

  constructor(item: T, group: Group<T>, number: number) {
    const { tokens, bytes = 0, deadlineAtMs } = item
    this.item = item
    this.group = group
    this.tokens = tokens > 0 && tokens < Number.POSITIVE_INFINITY ? tokens : 1
    this.bytes = bytes > 0 ? bytes : 0
    const due = Math.floor(deadlineAtMs / DEADLINE_STEP_MS)
    this.due = Number.isNaN(due) ? Number.POSITIVE_INFINITY : due
    this.number = number
  }
}

/**
 * The waiting items of one group of one run, by deadline, then longest first. An item without a group forms its own
 * group.
 */
export class Group<T extends FairItem> {
  readonly name: string | undefined
  readonly flow: Flow<T>
  readonly entries = new IndexedHeap<Entry<T>>(entryBefore, placeEntry)
  tokens = 0
  /** Sequence number, assigned when the group's first item is taken, or 0 if none was taken yet. */
  begun = 0
  readonly number: number
  readonly order: number
  /** The items of a run form blocks of 2,048. This is the number of the block in which the group arrived. */
  readonly era: number
  /** Index in the flow's heap of fresh or begun groups. */
  index = -1
  /** Index in the queue's heap of begun groups. */
  workIndex = -1
  /** The next group with the same name, in another flow, or null if there is none. */
  namesake: Group<T> | null = null

  constructor(item: T, flow: Flow<T>, number: number) {
    this.name = item.group
    this.order = item.order ?? 0
    this.flow = flow
    this.number = number
    this.era = Math.floor(flow.pushed / OVERTAKEN_WITHIN)
  }

  get first(): Entry<T> {
    return this.entries.first as Entry<T>
  }
}

export class Flow<T extends FairItem> {
  readonly run: string
  readonly lane: Lane<T>
  /** Groups of which no item was taken yet. The other groups are in `begun`. */
  readonly fresh = new IndexedHeap<Group<T>>(freshBefore, placeGroup)
  readonly begun = new IndexedHeap<Group<T>>(begunBefore, placeGroup)
  /** Tokens taken, divided by the flow's weight. The flow with the lowest value is next. */
  virtual = 0
  readonly number: number
  weight = 1
  size = 0
  pushed = 0
  index = -1

  constructor(run: string, lane: Lane<T>, number: number) {
    this.run = run
    this.lane = lane
    this.number = number
  }

  heapOf(group: Group<T>): IndexedHeap<Group<T>> {
    return group.begun === 0 ? this.fresh : this.begun
  }

  /**
   * The next item. Among groups of equal deadline and order, begun ones come first, so that they are finished before
   * other groups begin.
   */
  get first(): Entry<T> {
    const fresh = this.fresh.first
    const begun = this.begun.first
    if (begun === null) return (fresh as Group<T>).first
    return fresh !== null && comesBefore(fresh.first, begun.first) ? fresh.first : begun.first
  }

  /** Returns the next accepted item, or null if no item is accepted within the allowed number of checks. */
  find(accept: (item: T) => boolean, checks: Checks): Entry<T> | null {
    const begun = findIn(this.begun, accept, checks)
    const fresh = findIn(this.fresh, accept, checks)
    if (begun === null || fresh === null) return begun ?? fresh
    return comesBefore(fresh, begun) ? fresh : begun
  }
}

export class Lane<T extends FairItem> {
  readonly weight: number
  readonly active = new IndexedHeap<Flow<T>>(flowBefore, placeFlow)
  /** Tokens taken, divided by the class's weight. The class with the lowest value is next. */
  virtual = 0
  size = 0
  /** Runs with waiting items, and idle runs whose clock (`virtual`) is ahead of the lane's. */
  readonly #flows = new Map<string, Flow<T>>()
  /**
   * The lane's clock: the lowest `virtual` of its flows when it was last advanced. A new flow starts from this value.
   */
  #now = 0

  constructor(weight: number) {
    this.weight = weight
  }

  get runs(): number {
    return this.#flows.size
  }

  /**
   * Returns the run's flow, or a new one. The clock of an idle flow is advanced to the lane's. `number` orders a new
   * flow among flows with equal clocks.
   */
  flowOf(run: string, number: number): Flow<T> {
    this.tick()
    let flow = this.#flows.get(run)
    if (flow === undefined) {
      flow = new Flow(run, this, number)
      this.#flows.set(run, flow)
    }
    if (flow.size === 0) flow.virtual = Math.max(flow.virtual, this.#now)
    return flow
  }

  tick(): void {
    const slowest = this.active.first
    if (slowest !== null) this.#now = Math.max(this.#now, slowest.virtual)
  }

  /** Handles a flow that has become idle. It is forgotten, unless its virtual time is ahead of the lane's. */
  rest(flow: Flow<T>): void {
    this.active.remove(flow.index)
    if (this.size === 0) {
      this.#flows.clear()
      this.#now = 0
    } else if (flow.virtual <= this.#now) this.#flows.delete(flow.run)
    else if (this.#flows.size - this.active.size > MAX_RESTING_RUNS) this.#forgetResting()
  }

  #forgetResting(): void {
    for (const [run, each] of this.#flows) {
      if (each.size === 0 && each.virtual <= this.#now) this.#flows.delete(run)
    }
    for (const [run, each] of this.#flows) {
      if (this.#flows.size - this.active.size <= MAX_RESTING_RUNS / 2) return
      if (each.size === 0) this.#flows.delete(run)
    }
  }
}

function findIn<T extends FairItem>(
  groups: IndexedHeap<Group<T>>,
  accept: (item: T) => boolean,
  checks: Checks,
): Entry<T> | null {
  let found: Entry<T> | null = null
  groups.firstWhere((group) => {
    const entry = group.entries.firstWhere(({ item }) => accept(item), checks)
    if (entry !== null) found = entry
    return entry !== null
  }, checks)
  return found
}

function entryBefore<T extends FairItem>(a: Entry<T>, b: Entry<T>): boolean {
  if (a.due !== b.due) return a.due < b.due
  return a.tokens !== b.tokens ? a.tokens > b.tokens : a.number < b.number
}

function placeEntry<T extends FairItem>(entry: Entry<T>, index: number): void {
  entry.index = index
}

/** Whether `a` comes before `b` regardless of their groups: `a` is due earlier, or belongs to an earlier batch. */
function comesBefore<T extends FairItem>(a: Entry<T>, b: Entry<T>): boolean {
  return a.due !== b.due ? a.due < b.due : a.group.order < b.group.order
}

function freshBefore<T extends FairItem>(a: Group<T>, b: Group<T>): boolean {
  const aDue = a.first.due
  const bDue = b.first.due
  if (aDue !== bDue) return aDue < bDue
  if (a.order !== b.order) return a.order < b.order
  if (a.era !== b.era) return a.era < b.era
  return a.tokens !== b.tokens ? a.tokens > b.tokens : a.number < b.number
}

function begunBefore<T extends FairItem>(a: Group<T>, b: Group<T>): boolean {
  const aDue = a.first.due
  const bDue = b.first.due
  if (aDue !== bDue) return aDue < bDue
  return a.order !== b.order ? a.order < b.order : a.begun < b.begun
}

function placeGroup<T extends FairItem>(group: Group<T>, index: number): void {
  group.index = index
}

function flowBefore<T extends FairItem>(a: Flow<T>, b: Flow<T>): boolean {
  return a.virtual !== b.virtual ? a.virtual < b.virtual : a.number < b.number
}

function placeFlow<T extends FairItem>(flow: Flow<T>, index: number): void {
  flow.index = index
}
