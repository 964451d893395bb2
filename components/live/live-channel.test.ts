import { describe, expect, test } from 'vitest'
import {
  BEAT_LOST_MS,
  BEAT_MS,
  type Election,
  LiveChannel,
  type LiveMessage,
} from './live-channel.ts'

/** A simulated browser: tabs, their channel, one lock, and the open streams. */
class Browser {
  now = 0
  streams = 0
  private tabs: Tab[] = []
  private queue: { tab: Tab; lead: (lost: AbortSignal) => void }[] = []
  private holder: { tab: Tab; lost: AbortController } | null = null
  private toStream: { topics(topics: string[]): void; link(open: boolean): void } | null = null

  open(name: string): Tab {
    const tab = new Tab(name, this)
    this.tabs.push(tab)
    tab.start()
    return tab
  }

  close(tab: Tab): void {
    this.tabs = this.tabs.filter((each) => each !== tab)
    this.queue = this.queue.filter((each) => each.tab !== tab)
    if (this.holder?.tab === tab) {
      this.holder.lost.abort()
      this.holder = null
      this.grant()
    }
  }

  post(from: Tab, message: LiveMessage): void {
    if (from.silent) return
    for (const tab of this.tabs) if (tab !== from) tab.hear(message)
  }

  campaign(tab: Tab, lead: (lost: AbortSignal) => void, steal: boolean): void {
    this.queue = this.queue.filter((each) => each.tab !== tab)
    if (steal && this.holder) {
      const { tab: old, lost } = this.holder
      this.holder = null
      lost.abort()
      this.queue.push({ tab: old, lead: old.leadAgain })
      this.queue.unshift({ tab, lead })
    } else this.queue.push({ tab, lead })
    this.grant()
  }

  private grant(): void {
    const next = this.holder === null ? this.queue.shift() : undefined
    if (next === undefined) return
    const lost = new AbortController()
    this.holder = { tab: next.tab, lost }
    next.lead(lost.signal)
  }

  stream(on: { topics(topics: string[]): void; link(open: boolean): void }): { stop(): void } {
    this.streams++
    this.toStream = on
    on.link(true)
    return { stop: () => this.streams-- }
  }

  change(...topics: string[]): void {
    this.toStream?.topics(topics)
  }

  cut(): void {
    this.toStream?.link(false)
  }

  pass(ms: number): void {
    for (let i = 0; i < ms; i += 1_000) {
      this.now += 1_000
      for (const tab of this.tabs) tab.tick()
    }
  }
}

class Tab {
  readonly heard: string[] = []
  link: boolean | null = null
  visible = true
  /** Whether the tab is frozen: it runs no timers and sends nothing. */
  silent = false
  leadAgain: (lost: AbortSignal) => void = () => {}
  private channel!: LiveChannel
  private onMessage: (message: LiveMessage) => void = () => {}
  readonly name: string
  private readonly browser: Browser

  constructor(name: string, browser: Browser) {
    this.name = name
    this.browser = browser
  }

  start(): void {
    const election: Election = {
      campaign: (lead, { steal }) => {
        this.leadAgain = lead
        this.browser.campaign(this, lead, steal)
      },
      close: () => this.browser.close(this),
    }
    this.channel = new LiveChannel({
      port: {
        post: (message) => this.browser.post(this, message),
        onMessage: (listener) => {
          this.onMessage = listener
        },
        close: () => {},
      },
      election,
      stream: { open: (on) => this.browser.stream(on) },
      listener: {
        topics: (topics) => this.heard.push(...topics),
        link: (open) => {
          this.link = open
        },
      },
      now: this.browser.now,
    })
  }

  get leads(): boolean {
    return this.channel.leads
  }

  hear(message: LiveMessage): void {
    if (!this.silent) this.onMessage(message)
  }

  tick(): void {
    if (!this.silent) this.channel.tick(this.browser.now, this.visible)
  }

  close(): void {
    this.channel.close()
  }
}

describe('shared stream', () => {
  test('twelve tabs share one stream, and each receives every change', () => {
    const browser = new Browser()
    const tabs = Array.from({ length: 12 }, (_, i) => browser.open(`tab ${i}`))
    browser.change('batches')
    expect(browser.streams).toBe(1)
    expect(tabs.map((tab) => tab.heard)).toEqual(tabs.map(() => ['batches']))
    expect(tabs.every((tab) => tab.link)).toBe(true)
  })

  test('a new tab receives the link state at once', () => {
    const browser = new Browser()
    browser.open('first')
    expect(browser.open('second').link).toBe(true)
  })

  test('another tab leads when the leader is closed', () => {
    const browser = new Browser()
    const first = browser.open('first')
    const second = browser.open('second')
    const third = browser.open('third')
    first.close()
    expect([second.leads, third.leads, browser.streams]).toEqual([true, false, 1])
    browser.change('workers')
    expect(third.heard).toEqual(['workers'])
  })

  test('all tabs see the loss of the stream, and a heartbeat does not hide it', () => {
    const browser = new Browser()
    browser.open('first')
    const second = browser.open('second')
    browser.cut()
    expect(second.link).toBe(false)
    browser.pass(BEAT_MS)
    expect(second.link).toBe(false)
  })

  test('a visible tab replaces a frozen leader; a hidden one never does', () => {
    const browser = new Browser()
    const frozen = browser.open('frozen')
    const hidden = browser.open('hidden')
    const seen = browser.open('seen')
    hidden.visible = false
    frozen.silent = true
    browser.pass(BEAT_LOST_MS + 1_000)
    expect([frozen.leads, hidden.leads, seen.leads]).toEqual([false, false, true])
    expect(browser.streams).toBe(1)
    browser.change('samples')
    expect(seen.heard).toEqual(['samples'])
    expect(hidden.heard).toEqual(['samples'])
  })

  test('heartbeats prevent a takeover while nothing changes', () => {
    const browser = new Browser()
    const first = browser.open('first')
    const second = browser.open('second')
    for (let i = 0; i < 120; i++) {
      browser.pass(1_000)
      expect([first.leads, second.leads, second.link]).toEqual([true, false, true])
    }
  })
})
