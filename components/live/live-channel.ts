/**
 * One live stream per browser: an elected tab holds the stream and forwards events over a BroadcastChannel. A browser
 * opens at most six HTTP/1.1 connections per host, so one stream per tab would block the seventh tab.
 */

/** Messages between tabs: the leader sends `topics` and `link`; a new tab sends `hello` to get the link state. */
export type LiveMessage =
  | { kind: 'topics'; topics: string[] }
  | { kind: 'link'; open: boolean }
  | { kind: 'hello' }

/** The transport of messages: `BroadcastChannel` in the browser. */
export interface MessagePort {
  post(message: LiveMessage): void
  onMessage(listener: (message: LiveMessage) => void): void
  close(): void
}

/** Elects the leader. `campaign` calls `lead` once this tab leads, and aborts `lost` when the tab stops leading. */
export interface Election {
  campaign(lead: (lost: AbortSignal) => void, options: { steal: boolean }): void
  close(): void
}

export interface Stream {
  open(on: { topics(topics: string[]): void; link(open: boolean): void }): { stop(): void }
}

interface LiveListener {
  topics(topics: string[]): void
  link(open: boolean): void
}

/** The heartbeat interval of the leader. */
export const BEAT_MS = 2_000
/**
 * A visible tab that gets no heartbeat for this long becomes the leader, because browsers may freeze a hidden leader.
 */
export const BEAT_LOST_MS = 6_000

/**
 * The role of a tab in the shared stream, as leader or follower. It has no clock or timer; the caller passes the time.
 */
export class LiveChannel {
  private readonly port: MessagePort
  private readonly election: Election
  private readonly stream: Stream
  private readonly listener: LiveListener
  private leading = false
  private linkOpen = false
  private heardAt: number
  private saidAt = 0

  constructor(ports: {
    port: MessagePort
    election: Election
    stream: Stream
    listener: LiveListener
    now: number
  }) {
    this.port = ports.port
    this.election = ports.election
    this.stream = ports.stream
    this.listener = ports.listener
    this.heardAt = ports.now
    this.port.onMessage((message) => this.hear(message))
    this.election.campaign((lost) => this.lead(lost), { steal: false })
    this.port.post({ kind: 'hello' })
  }

  get leads(): boolean {
    return this.leading
  }

  /** Sends the leader's heartbeat; in a visible tab, takes over from a silent leader. Call it about once a second. */
  tick(now: number, visible: boolean): void {
    if (this.leading) {
      if (now - this.saidAt >= BEAT_MS) this.say(now)
      return
    }
    if (this.heardSomething) {
      this.heardAt = now
      this.heardSomething = false
    }
    if (now - this.heardAt < BEAT_LOST_MS) return
    this.listener.link(false)
    if (visible) {
      this.heardAt = now
      this.election.campaign((lost) => this.lead(lost), { steal: true })
    }
  }

  close(): void {
    this.election.close()
    this.port.close()
  }

  private heardSomething = false

  private hear(message: LiveMessage): void {
    if (message.kind === 'hello') {
      if (this.leading) this.port.post({ kind: 'link', open: this.linkOpen })
      return
    }
    if (this.leading) return
    this.heardSomething = true
    if (message.kind === 'topics') this.listener.topics(message.topics)
    else this.listener.link(message.open)
  }

  private say(now: number): void {
    this.saidAt = now
    this.port.post({ kind: 'link', open: this.linkOpen })
  }

  private lead(lost: AbortSignal): void {
    this.leading = true
    const open = this.stream.open({
      topics: (topics) => {
        this.listener.topics(topics)
        this.port.post({ kind: 'topics', topics })
      },
      link: (isOpen) => {
        this.linkOpen = isOpen
        this.listener.link(isOpen)
        this.port.post({ kind: 'link', open: isOpen })
      },
    })
    lost.addEventListener(
      'abort',
      () => {
        open.stop()
        this.leading = false
        this.linkOpen = false
        this.heardSomething = true
      },
      { once: true },
    )
  }
}
