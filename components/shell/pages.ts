import {
  BellRing,
  Boxes,
  ChartGantt,
  Cpu,
  Gauge,
  GitCompareArrows,
  Layers,
  ListTree,
  type LucideIcon,
  Scale,
  Server,
  Settings,
} from 'lucide-react'

export interface PageLink {
  href: string
  label: string
  icon: LucideIcon
  /** Opens the page after `g`. */
  key?: string
}

export const NAVIGATION: readonly { title: string | null; pages: readonly PageLink[] }[] = [
  { title: null, pages: [{ href: '/', label: 'Overview', icon: Gauge, key: 'o' }] },
  {
    title: 'Training',
    pages: [
      { href: '/runs', label: 'Runs', icon: ListTree, key: 'r' },
      { href: '/batches', label: 'Batches', icon: Layers, key: 'b' },
      { href: '/samples', label: 'Samples', icon: Boxes, key: 's' },
      { href: '/rewards', label: 'Rewards', icon: Scale, key: 'e' },
      { href: '/monitors', label: 'Monitors', icon: BellRing, key: 'm' },
      { href: '/compare', label: 'Compare', icon: GitCompareArrows, key: 'c' },
      { href: '/planner', label: 'Planner', icon: ChartGantt, key: 'p' },
    ],
  },
  {
    title: 'Fleet',
    pages: [
      { href: '/servers', label: 'Servers', icon: Server, key: 'v' },
      { href: '/workers', label: 'Workers', icon: Cpu, key: 'w' },
    ],
  },
  { title: 'Service', pages: [{ href: '/settings', label: 'Settings', icon: Settings, key: ',' }] },
]

export function isOn(pathname: string, href: string): boolean {
  return href === '/' ? pathname === '/' : pathname === href || pathname.startsWith(`${href}/`)
}
