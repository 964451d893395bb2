import { NotFound } from '../../components/shell/not-found.tsx'

export default function NotFoundInShell() {
  return <NotFound />
}
