'use client'

import { useEffect, useRef, useState } from 'react'

/** The minimum interval between renders of a live chart, whose data change three times a second. */
const DRAWN_EVERY_MS = 1_000
/** The delay between the turns of two charts, in which the browser handles input and draws frames. */
const TURN_MS = 60

const waiting: (() => void)[] = []
let timer: ReturnType<typeof setTimeout> | undefined

/** Queues `draw`. Each queued function runs in its own task. Returns a function that removes `draw` from the queue. */
function inTurn(draw: () => void): () => void {
  waiting.push(draw)
  if (timer === undefined) timer = setTimeout(next, 0)
  return () => {
    const at = waiting.indexOf(draw)
    if (at >= 0) waiting.splice(at, 1)
  }
}

function next(): void {
  waiting.shift()?.()
  timer = waiting.length > 0 ? setTimeout(next, TURN_MS) : undefined
}

/**
 * Returns the data that a plot renders: the newest at most once a second, and never in the same task as another plot.
 * Recharts takes 15 to 40 ms per plot, so rendering two plots together with the page would block input. When `input`, a
 * choice of the user, changes, the newest data are returned immediately.
 */
export function useInTurn<T>(newest: T, input: string | null = null): T {
  const [drawn, setDrawn] = useState({ data: newest, input })
  const drawnAt = useRef(0)
  if (drawn.input !== input) setDrawn({ data: newest, input })
  useEffect(() => {
    if (Object.is(drawn.data, newest)) return
    let takeBack = () => {}
    const pause = setTimeout(
      () => {
        takeBack = inTurn(() => {
          drawnAt.current = performance.now()
          setDrawn({ data: newest, input })
        })
      },
      Math.max(0, drawnAt.current + DRAWN_EVERY_MS - performance.now()),
    )
    return () => {
      clearTimeout(pause)
      takeBack()
    }
  }, [drawn, newest, input])
  return drawn.data
}
