import { Lock } from 'lucide-react'
import { Empty } from '../ui/empty.tsx'

export function AdminsOnly({ what, refused }: { what: string; refused: string }) {
  return (
    <Empty icon={Lock} title={`${what} is for admins only`}>
      {refused} Sign in with an admin key to view it.
    </Empty>
  )
}
