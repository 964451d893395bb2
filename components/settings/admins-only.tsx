import { Lock } from 'lucide-react'
import { Empty } from '../ui/empty.tsx'

/** In place of what a role may not see. */
export function AdminsOnly({ what, refused }: { what: string; refused: string }) {
  return (
    <Empty icon={Lock} title={`${what} is for admins`}>
      {refused} Sign in with another key to see it.
    </Empty>
  )
}
