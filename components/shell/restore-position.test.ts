import { expect, test } from 'vitest'
import { restorePositions } from './restore-position.ts'

interface Link {
  href: string
}

/** A window without layout: a page is a list of links and a scroll height. Frames run on demand. */
function fakeWindow() {
  const events = new EventTarget()
  const body = { closest: () => null }
  const element = ({ href }: Link) => {
    const link = {
      getAttribute: () => href,
      closest: () => link,
      focus: () => {
        view.document.activeElement = link
      },
    }
    return link
  }
  let frame: (() => void) | null = null
  let maxScrollPx = 0
  const view = {
    now: 0,
    rendered: '',
    location: { href: '' },
    scrollY: 0,
    document: {
      body,
      activeElement: body as unknown,
      links: [] as ReturnType<typeof element>[],
      querySelectorAll: () => view.document.links,
    },
    performance: { now: () => view.now },
    addEventListener: events.addEventListener.bind(events),
    removeEventListener: events.removeEventListener.bind(events),
    requestAnimationFrame: (run: () => void) => {
      frame = run
      return 1
    },
    cancelAnimationFrame: () => {
      frame = null
    },
    scrollTo: ({ top }: { top: number }) => {
      view.scrollY = Math.min(top, maxScrollPx)
    },
    send: (event: string) => events.dispatchEvent(new Event(event)),
    /** Replaces all links with new elements, so a link that had the focus loses it. */
    render: (url: string, hrefs: string[], scrollPx: number) => {
      view.rendered = url
      view.document.links = hrefs.map((href) => element({ href }))
      view.document.activeElement = body
      maxScrollPx = scrollPx
      view.scrollY = Math.min(view.scrollY, scrollPx)
    },
    frame: (ms = 16) => {
      view.now += ms
      const run = frame
      frame = null
      run?.()
      return run !== null
    },
  }
  const stop = restorePositions(view as never, () => view.rendered === view.location.href)
  return { view, body, stop }
}

const LIST = ['/', '/batches/b1', '/runs/r', '/batches/b2', '/runs/r']

function openAndGoBack() {
  const fake = fakeWindow()
  const { view } = fake
  view.location.href = '/batches'
  view.render('/batches', LIST, 900)
  view.document.links[4]?.focus()
  view.send('focusin')
  view.scrollY = 400
  view.send('scroll')
  view.location.href = '/runs/r'
  view.render('/runs/r', ['/', '/runs/r'], 0)
  view.send('scroll')
  view.location.href = '/batches'
  view.send('popstate')
  return fake
}

test('restores the focused link among equal ones, and the scroll position, once the data are rendered', () => {
  const { view, body } = openAndGoBack()
  view.frame()
  // The run page is still rendered and has a link with the same address. Its events must not change the position of the
  // list.
  view.send('scroll')
  expect(view.document.activeElement).toBe(body)
  view.render('/batches', ['/'], 100)
  view.frame()
  expect(view.document.activeElement).toBe(body)
  view.render('/batches', LIST, 900)
  view.frame()
  expect(view.document.activeElement).toBe(view.document.links[4])
  expect(view.scrollY).toBe(400)
  expect(view.frame()).toBe(false)
})

test.each(['keydown', 'pointerdown', 'wheel'])('restores nothing after %s', (event) => {
  const { view, body } = openAndGoBack()
  view.send(event)
  view.render('/batches', LIST, 900)
  expect(view.frame()).toBe(false)
  expect([view.document.activeElement, view.scrollY]).toEqual([body, 0])
})

test('stops waiting after 3 s', () => {
  const { view } = openAndGoBack()
  view.render('/batches', ['/'], 900)
  view.frame(2_900)
  expect(view.frame(200)).toBe(true)
  expect(view.frame()).toBe(false)
})

test('leaves the focus where the page has moved it', () => {
  const { view } = openAndGoBack()
  view.render('/batches', LIST, 900)
  view.document.links[0]?.focus()
  view.frame()
  expect([view.document.activeElement, view.scrollY]).toEqual([view.document.links[0], 400])
})

test('ignores Back on the same page, and everything after its end', () => {
  const { view, stop } = openAndGoBack()
  view.render('/batches', LIST, 900)
  view.send('popstate')
  expect(view.frame()).toBe(false)
  stop()
  view.location.href = '/runs/r'
  view.render('/runs/r', [], 0)
  view.location.href = '/batches'
  view.send('popstate')
  expect(view.frame()).toBe(false)
})
