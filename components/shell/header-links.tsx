'use client'

import { useRouter } from 'next/navigation'
import type { ReactNode } from 'react'
import { ActionMenu } from '../ui/action-menu.tsx'
import { buttonClass } from '../ui/button.tsx'
import { useKeys } from './keys.tsx'
import { PageLink } from './page-link.tsx'

export interface HeaderLink {
  label: string
  icon: ReactNode
  href: string
  title?: string
}

/**
 * The links of a page header, which are also in the command palette. Phones and tablets show the links in a menu, to
 * leave space for the title.
 * @param of the name of the page's run or batch, for the palette
 */
export function HeaderLinks({ of, links }: { of: string; links: readonly HeaderLink[] }) {
  const router = useRouter()
  useKeys(
    links.map(({ label, href }) => ({
      key: null,
      label: `${label} of ${of}`,
      group: 'This page',
      palette: 'page',
      run: () => router.push(href),
    })),
  )
  return (
    <>
      <span className="flex items-center gap-2 max-lg:hidden">
        {links.map(({ label, icon, href, title }) => (
          <PageLink
            key={label}
            href={href}
            {...(title ? { title } : {})}
            className={buttonClass('plain', true)}
          >
            {icon}
            {label}
          </PageLink>
        ))}
      </span>
      <span className="lg:hidden">
        <ActionMenu
          label="More actions"
          actions={links.map(({ label, icon, href }) => ({
            label,
            icon,
            onSelect: () => router.push(href),
          }))}
        />
      </span>
    </>
  )
}
