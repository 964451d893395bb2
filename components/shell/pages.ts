import {
  Boxes,
  ChartGantt,
  Cpu,
  Gauge,
  Layers,
  ListTree,
  type LucideIcon,
  Scale,
  Server,
  Settings,
} from 'lucide-react'

/** A page of the navigation. Compare joins here when it exists. */
export interface PageLink {
  href: string
  label: string
  icon: LucideIcon
}

/** The navigation, in its groups. */
export const NAVIGATION: readonly { title: string | null; pages: readonly PageLink[] }[] = [
  { title: null, pages: [{ href: '/', label: 'Overview', icon: Gauge }] },
  {
    title: 'Training',
    pages: [
      { href: '/runs', label: 'Runs', icon: ListTree },
      { href: '/batches', label: 'Batches', icon: Layers },
      { href: '/samples', label: 'Samples', icon: Boxes },
      { href: '/rewards', label: 'Rewards', icon: Scale },
      { href: '/planner', label: 'Planner', icon: ChartGantt },
    ],
  },
  {
    title: 'Fleet',
    pages: [
      { href: '/servers', label: 'Servers', icon: Server },
      { href: '/workers', label: 'Workers', icon: Cpu },
    ],
  },
  { title: 'Service', pages: [{ href: '/settings', label: 'Settings', icon: Settings }] },
]

/** Whether a path lies on a page or under it. */
export function isOn(pathname: string, href: string): boolean {
  return href === '/' ? pathname === '/' : pathname === href || pathname.startsWith(`${href}/`)
}
