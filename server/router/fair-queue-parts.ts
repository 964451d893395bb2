import { IndexedHeap, type Looks } from './indexed-heap.ts'

/** Deadlines within the same second are equal: those of one batch differ by the ms in which its samples came in. */
const DEADLINE_STEP_MS = 1_000
/**
 * A group is overtaken by larger ones of its run only among so many of its run's samples in a row: large ones that keep
 * coming would else hold back small ones for ever.
 */
const OVERTAKEN_WITHIN = 2_048
/** Runs without anything waiting whose clocks a class keeps; with more of them half of those are forgotten. */
const RESTING_RUNS = 256

/** What a {@link FairQueue} must know of an item; none of it may change while the item is in the queue. */
export interface FairItem {
  /** Its cost. */
  readonly tokens: number
  /** Whose it is: shares are between runs. */
  readonly run: string
  readonly priorityClass: PriorityClass
  /** On the clock of `performance.now()`; infinite: none. */
  readonly deadlineAtMs: number
  /** Items of one group belong together. */
  readonly group: string | undefined
  /** Of its run's items those of a lower order go first; default 0. The same for all of a group. */
  readonly order?: number
  /** Memory it holds; absent: not counted. */
  readonly bytes?: number
  /** Share of its run relative to other runs of the class, as the run's last item has it; default 1. */
  readonly runWeight?: number
}

/** Classes share 4 : 3 : 1. */
export type PriorityClass = 'interactive' | 'step' | 'backfill'

/** One item in the queue. */
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

/** The waiting items of one group of one run, the longest first; an item without a group is one of its own. */
export class Group<T extends FairItem> {
  readonly name: string | undefined
  readonly flow: Flow<T>
  readonly entries = new IndexedHeap<Entry<T>>(entryBefore, placeEntry)
  /** Of what waits. */
  tokens = 0
  /** When one of its items was first taken, as a number; 0: none was. */
  begun = 0
  readonly number: number
  readonly order: number
  /** Which 2,048 of its run's items it came with. */
  readonly era: number
  /** In the heap of its flow, begun or not. */
  index = -1
  /** In the queue's heap of begun groups. */
  workIndex = -1
  /** Another run's group of the same name. */
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

/** What waits of one run in one class. */
export class Flow<T extends FairItem> {
  readonly run: string
  readonly lane: Lane<T>
  /** Groups of which nothing was taken yet, and those of which something was. */
  readonly fresh = new IndexedHeap<Group<T>>(freshBefore, placeGroup)
  readonly begun = new IndexedHeap<Group<T>>(begunBefore, placeGroup)
  /** Tokens taken by weight, on the lane's clock: the lowest is next. */
  virtual = 0
  readonly number: number
  weight = 1
  size = 0
  /** Items that ever came. */
  pushed = 0
  index = -1

  constructor(run: string, lane: Lane<T>, number: number) {
    this.run = run
    this.lane = lane
    this.number = number
  }

  /** The heap its group is in. */
  heapOf(group: Group<T>): IndexedHeap<Group<T>> {
    return group.begun === 0 ? this.fresh : this.begun
  }

  /** What is next of it: of equally due groups those already begun, so that groups end one after the other. */
  get first(): Entry<T> {
    const fresh = this.fresh.first
    const begun = this.begun.first
    if (begun === null) return (fresh as Group<T>).first
    return fresh !== null && comesBefore(fresh.first, begun.first) ? fresh.first : begun.first
  }

  /** The first of its items that is accepted. */
  find(accept: (item: T) => boolean, looks: Looks): Entry<T> | null {
    const begun = findIn(this.begun, accept, looks)
    const fresh = findIn(this.fresh, accept, looks)
    if (begun === null || fresh === null) return begun ?? fresh
    return comesBefore(fresh, begun) ? fresh : begun
  }
}

/** One priority class. */
export class Lane<T extends FairItem> {
  readonly weight: number
  readonly active = new IndexedHeap<Flow<T>>(flowBefore, placeFlow)
  /** Tokens taken by weight, on the queue's clock. */
  virtual = 0
  size = 0
  /** Runs that have something waiting, and those that took more than their share not long ago. */
  readonly #flows = new Map<string, Flow<T>>()
  /** Its own clock: the lowest `virtual` of its flows, as last seen. A flow that comes starts from here. */
  #now = 0

  constructor(weight: number) {
    this.weight = weight
  }

  /** Runs it remembers; none when nothing waits. */
  get runs(): number {
    return this.#flows.size
  }

  /** The run's flow, its clock set where it had nothing waiting. `number` makes a new one unlike others. */
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

  /** Moves its clock on to the slowest of its flows. */
  tick(): void {
    const slowest = this.active.first
    if (slowest !== null) this.#now = Math.max(this.#now, slowest.virtual)
  }

  /** A run has nothing waiting any more: forgotten, unless its clock is ahead of the others'. */
  rest(flow: Flow<T>): void {
    this.active.remove(flow.index)
    if (this.size === 0) {
      this.#flows.clear()
      this.#now = 0
    } else if (flow.virtual <= this.#now) this.#flows.delete(flow.run)
    else if (this.#flows.size - this.active.size > RESTING_RUNS) this.#forgetResting()
  }

  /** Those whose clock was passed, and then the oldest. */
  #forgetResting(): void {
    for (const [run, each] of this.#flows) {
      if (each.size === 0 && each.virtual <= this.#now) this.#flows.delete(run)
    }
    for (const [run, each] of this.#flows) {
      if (this.#flows.size - this.active.size <= RESTING_RUNS / 2) return
      if (each.size === 0) this.#flows.delete(run)
    }
  }
}

function findIn<T extends FairItem>(
  groups: IndexedHeap<Group<T>>,
  accept: (item: T) => boolean,
  looks: Looks,
): Entry<T> | null {
  let found: Entry<T> | null = null
  groups.firstWhere((group) => {
    const entry = group.entries.firstWhere(({ item }) => accept(item), looks)
    if (entry !== null) found = entry
    return entry !== null
  }, looks)
  return found
}

function entryBefore<T extends FairItem>(a: Entry<T>, b: Entry<T>): boolean {
  if (a.due !== b.due) return a.due < b.due
  return a.tokens !== b.tokens ? a.tokens > b.tokens : a.number < b.number
}

function placeEntry<T extends FairItem>(entry: Entry<T>, index: number): void {
  entry.index = index
}

/** Whether it must go before the other whatever their groups: it is due earlier, or of an earlier batch. */
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
