'use client'

import { Check, Copy } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { shortenMiddle } from '../format/text.ts'

/** Copies a text to the clipboard, even on plain HTTP, where the clipboard API is unavailable. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    area.style.position = 'fixed'
    area.style.opacity = '0'
    document.body.append(area)
    area.select()
    const done = document.execCommand('copy')
    area.remove()
    return done
  }
}

export function useCopy(): { copied: boolean; copy(text: string): void } {
  const [copied, setCopied] = useState(false)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  return {
    copied,
    copy(text) {
      void copyText(text).then((done) => {
        if (!done) return
        setCopied(true)
        clearTimeout(timer.current)
        timer.current = setTimeout(() => setCopied(false), 1_400)
      })
    },
  }
}

export function CopyText({
  text,
  maxChars = 24,
  className,
}: {
  text: string
  maxChars?: number
  className?: string
}) {
  const { copied, copy } = useCopy()
  const Icon = copied ? Check : Copy
  return (
    <button
      type="button"
      title={copied ? 'Copied' : `Copy ${text}`}
      onClick={(event) => {
        event.stopPropagation()
        copy(text)
      }}
      className={`group inline-flex items-center gap-1 rounded font-mono hover:text-ink ${className ?? ''}`}
    >
      {shortenMiddle(text, maxChars)}
      <Icon
        size={12}
        aria-hidden
        className={
          copied
            ? 'text-ok'
            : 'opacity-0 group-hover:opacity-70 group-focus-visible:opacity-70 quick transition-opacity'
        }
      />
      <span className="sr-only" aria-live="polite">
        {copied ? 'Copied' : ''}
      </span>
    </button>
  )
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const { copied, copy } = useCopy()
  const Icon = copied ? Check : Copy
  return (
    <button
      type="button"
      onClick={() => copy(text)}
      className="inline-flex h-7 items-center gap-1.5 rounded-md px-2 text-xs text-ink-2 hover:bg-hover hover:text-ink quick transition-colors"
    >
      <Icon size={13} aria-hidden className={copied ? 'text-ok' : undefined} />
      <span aria-live="polite">{copied ? 'Copied' : label}</span>
    </button>
  )
}
