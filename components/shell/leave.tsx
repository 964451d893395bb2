'use client'

import { useRouter } from 'next/navigation'
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useState,
} from 'react'
import { useLive } from '../live/live-provider.tsx'
import { Button } from '../ui/button.tsx'
import { BASE_PATH } from '../url/base-path.ts'

const RETRY_MS = 1_000
const ATTEMPT_MS = 3_000

interface Leave {
  /** Opens a page of the dashboard once the service responds. */
  open(href: string): void
  /** Whether the service seems to respond, so that links can be followed. */
  answers: boolean
}

const Context = createContext<Leave>({ open() {}, answers: true })

/** Opens pages once the service responds. Until then, a plain link would end on the error page of the browser. */
export function useLeave(): Leave {
  return useContext(Context)
}

export function LeaveProvider({ children }: { children: ReactNode }) {
  const router = useRouter()
  const { state } = useLive()
  const [wanted, setWanted] = useState<{ href: string; isLate: boolean } | null>(null)
  const answers = state.link === 'open' || state.link === 'waiting'
  const open = useCallback(
    (href: string) => {
      if (answers) router.push(href)
      else setWanted({ href, isLate: false })
    },
    [answers, router],
  )
  const href = wanted?.href
  useEffect(() => {
    if (href === undefined) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let isOver = false
    const attempt = async () => {
      const isThere = await fetch(`${BASE_PATH}/livez`, {
        cache: 'no-store',
        signal: AbortSignal.timeout(ATTEMPT_MS),
      }).then(
        ({ ok }) => ok,
        () => false,
      )
      if (isOver) return
      if (isThere) {
        setWanted(null)
        router.push(href)
      } else {
        setWanted({ href, isLate: true })
        timer = setTimeout(() => void attempt(), RETRY_MS)
      }
    }
    void attempt()
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [href, router])
  const value = useMemo(() => ({ open, answers }), [open, answers])
  return (
    <Context.Provider value={value}>
      {children}
      {wanted?.isLate && (
        <div
          role="status"
          className="fixed inset-x-4 bottom-4 z-50 mx-auto flex w-fit max-w-full items-center gap-3 rounded-lg border border-line-strong bg-raised px-3 py-2 text-sm shadow-pop"
        >
          The service is not responding. The page opens as soon as the service responds.
          <Button small onClick={() => setWanted(null)}>
            Stay here
          </Button>
        </div>
      )}
    </Context.Provider>
  )
}
