'use client'

import Link from 'next/link'
import { type ComponentProps, useState } from 'react'
import { useLeave } from './leave.tsx'

/**
 * A link that prefetches only on hover, because a table of fifty batches must not fetch fifty pages. While the service
 * does not respond, a click waits until it does.
 */
export function PageLink(props: ComponentProps<typeof Link>) {
  const [near, setNear] = useState(false)
  const leave = useLeave()
  return (
    <Link
      {...props}
      prefetch={near ? null : false}
      onMouseEnter={() => setNear(true)}
      onFocus={() => setNear(true)}
      onNavigate={(event) => {
        if (leave.answers) return
        event.preventDefault()
        leave.open(String(props.href))
      }}
    />
  )
}
