'use client'

import { useEffect, useRef, useState } from 'react'

/** A chart of a live page is drawn anew at most this often: its figures and its timeline follow three times a second. */
const DRAWN_EVERY_MS = 1_000
/** From one chart's turn to the next one's: input and frames come between them. */
const TURN_MS = 60

const waiting: (() => void)[] = []
let timer: ReturnType<typeof setTimeout> | undefined

/** Runs `draw` when the ones before it have had their turn, each in a task of its own. Gives what takes it back. */
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
 * What a plot draws of data that keep changing: the newest, at most once a second and never in the task in which
 * another plot is drawn. Recharts takes 15 ms to 40 ms for one plot; two of them and the page together hold up what
 * the reader does. What the reader asks for, `asked`, is drawn at once.
 */
export function useInTurn<T>(newest: T, asked: string | null = null): T {
  const [drawn, setDrawn] = useState({ data: newest, asked })
  const drawnAt = useRef(0)
  if (drawn.asked !== asked) setDrawn({ data: newest, asked })
  useEffect(() => {
    if (Object.is(drawn.data, newest)) return
    let takeBack = () => {}
    const pause = setTimeout(
      () => {
        takeBack = inTurn(() => {
          drawnAt.current = performance.now()
          setDrawn({ data: newest, asked })
        })
      },
      Math.max(0, drawnAt.current + DRAWN_EVERY_MS - performance.now()),
    )
    return () => {
      clearTimeout(pause)
      takeBack()
    }
  }, [drawn, newest, asked])
  return drawn.data
}
