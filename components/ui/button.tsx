import type { ButtonHTMLAttributes, ReactNode, Ref } from 'react'

const VARIANTS = {
  primary: 'border-transparent bg-accent-fill text-accent-ink hover:brightness-110',
  plain: 'border-line-strong bg-surface text-ink hover:bg-hover',
  quiet: 'border-transparent text-ink-2 hover:bg-hover hover:text-ink',
  danger: 'border-transparent bg-bad text-surface hover:brightness-110',
}

export function buttonClass(variant: keyof typeof VARIANTS = 'plain', small = false): string {
  return `inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap quick transition-[background-color,filter,color] disabled:opacity-50 ${
    small ? 'h-7 px-2 text-xs' : 'h-8 px-3 text-sm'
  } ${VARIANTS[variant]}`
}

/**
 * While its action runs (`busy`), the button ignores clicks but stays focusable, because a disabled button loses the
 * focus. `refused` says why the user lacks the permission; the button stays focusable, so that its tooltip can be read.
 */
export function Button({
  variant = 'plain',
  small,
  busy,
  refused = null,
  children,
  className,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & {
  variant?: keyof typeof VARIANTS
  small?: boolean
  busy?: boolean
  ref?: Ref<HTMLButtonElement>
  refused?: string | null
}) {
  const look = `${buttonClass(variant, small)} ${className ?? ''}`
  if (refused !== null) {
    return (
      <button
        {...rest}
        type="button"
        aria-disabled
        title={refused}
        onClick={(event) => event.preventDefault()}
        className={`${look} cursor-not-allowed! opacity-50`}
      >
        {children}
        <span className="sr-only">{refused}</span>
      </button>
    )
  }
  return (
    <button
      type="button"
      {...rest}
      aria-disabled={busy || undefined}
      aria-busy={busy || undefined}
      onClick={busy ? (event) => event.preventDefault() : rest.onClick}
      className={busy ? `${look} cursor-default! opacity-50` : look}
    >
      {children}
    </button>
  )
}

export function IconButton({
  label,
  refused = null,
  children,
  className,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & {
  label: string
  refused?: string | null
  children: ReactNode
}) {
  const look = `inline-flex size-7 shrink-0 items-center justify-center rounded-md text-ink-2 hover:bg-hover hover:text-ink quick transition-colors disabled:opacity-40 ${className ?? ''}`
  if (refused !== null) {
    return (
      <button
        {...rest}
        type="button"
        aria-label={label}
        aria-disabled
        title={refused}
        onClick={(event) => event.preventDefault()}
        className={`${look} cursor-not-allowed! opacity-40`}
      >
        {children}
      </button>
    )
  }
  return (
    <button type="button" aria-label={label} title={label} {...rest} className={look}>
      {children}
    </button>
  )
}
