import type { Metadata } from 'next'
import { NotFound } from '../components/shell/not-found.tsx'
import { Shell } from '../components/shell/shell.tsx'

export const metadata: Metadata = { title: 'Not found' }

export default function NotFoundPage() {
  return (
    <Shell>
      <NotFound />
    </Shell>
  )
}
