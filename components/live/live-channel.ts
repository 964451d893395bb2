/**
 * One live stream a browser: of all tabs one leads, holds the stream, and tells the others over a
 * BroadcastChannel. A browser opens at most six connections to a host over HTTP/1.1; a stream a tab
 * would leave the seventh tab without any answer at all.
 */

/** What the leading tab says to the others. */
export type LiveMessage =
  | { kind: 'topics'; topics: string[] }
  | { kind: 'link'; open: boolean }
  | { kind: 'hello' }

/** Where messages go; `BroadcastChannel` in the browser. */
export interface MessagePort {
  post(message: LiveMessage): void
  onMessage(listener: (message: LiveMessage) => void): void
  close(): void
}

/** Elects the leader. `campaign` calls `lead` once this tab leads, and aborts its signal when it no longer does. */
export interface Election {
  campaign(lead: (lost: AbortSignal) => void, options: { steal: boolean }): void
  close(): void
}

/** The stream itself. Calls back until `stop`. */
export interface Stream {
  open(on: { topics(topics: string[]): void; link(open: boolean): void }): { stop(): void }
}

/** What a tab does with what it hears. */
export interface LiveListener {
  topics(topics: string[]): void
  link(open: boolean): void
}

/** The leader repeats the state of its link this often, so that followers know it is there. */
export const BEAT_MS = 2_000
/** A visible tab that heard no beat for this long takes the lead: browsers slow down or freeze hidden tabs. */
export const BEAT_LOST_MS = 6_000

/** A tab's part in the shared stream. Clock and timers come from outside: `tick` is called about once a second. */
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

  /** Whether this tab holds the stream. */
  get leads(): boolean {
    return this.leading
  }

  /** To be called about once a second. */
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
