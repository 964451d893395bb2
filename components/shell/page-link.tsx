'use client'

import Link from 'next/link'
import { type ComponentProps, useState } from 'react'

/** A link that prefetches on hover only, because a table of fifty batches must not fetch fifty pages. */
export function PageLink(props: ComponentProps<typeof Link>) {
  const [near, setNear] = useState(false)
  return (
    <Link
      {...props}
      prefetch={near ? null : false}
      onMouseEnter={() => setNear(true)}
      onFocus={() => setNear(true)}
    />
  )
}
