'use client'

import Link from 'next/link'
import { type ComponentProps, useState } from 'react'
import { useLeave } from './leave.tsx'

/**
 * A link that prefetches on hover only, because a table of fifty batches must not fetch fifty pages. While the service
 * does not answer, it opens once the service does.
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
