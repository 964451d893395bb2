import { type InputHTMLAttributes, type ReactNode, type TextareaHTMLAttributes, useId } from 'react'

export const FIELD_BOX =
  'w-full rounded-md border border-line-strong bg-surface text-ink placeholder:text-ink-3 quick transition-[border-color] hover:border-ink-3 aria-invalid:border-bad'

export function FieldLabel({ htmlFor, children }: { htmlFor: string; children: ReactNode }) {
  return (
    <label htmlFor={htmlFor} className="mb-1 block text-xs font-medium text-ink-2">
      {children}
    </label>
  )
}

export function TextField({
  label,
  hint,
  error,
  mono,
  ...input
}: InputHTMLAttributes<HTMLInputElement> & {
  label: string
  hint?: ReactNode
  error?: ReactNode
  mono?: boolean
}) {
  const id = useId()
  return (
    <div>
      <FieldLabel htmlFor={id}>{label}</FieldLabel>
      <input
        id={id}
        autoComplete="off"
        spellCheck={false}
        {...input}
        aria-invalid={error ? true : undefined}
        aria-describedby={hint || error ? `${id}-about` : undefined}
        className={`${FIELD_BOX} h-8 px-2.5 ${mono ? 'font-mono text-xs' : ''}`}
      />
      <FieldAbout id={`${id}-about`} hint={hint} error={error} />
    </div>
  )
}

export function TextArea({
  label,
  note,
  hint,
  error,
  mono,
  ...area
}: TextareaHTMLAttributes<HTMLTextAreaElement> & {
  label: string
  note?: ReactNode
  hint?: ReactNode
  error?: ReactNode
  mono?: boolean
}) {
  const id = useId()
  return (
    <div>
      <div className="mb-1 flex items-baseline gap-2 text-xs">
        <label htmlFor={id} className="font-medium text-ink-2">
          {label}
        </label>
        {note && <span className="num text-ink-3">{note}</span>}
      </div>
      <textarea
        id={id}
        autoComplete="off"
        spellCheck={false}
        {...area}
        aria-invalid={error ? true : undefined}
        aria-describedby={hint || error ? `${id}-about` : undefined}
        className={`${FIELD_BOX} block resize-y px-2.5 py-1.5 ${mono ? 'font-mono text-xs leading-[19px]' : ''} ${area.className ?? ''}`}
      />
      <FieldAbout id={`${id}-about`} hint={hint} error={error} />
    </div>
  )
}

export function FieldAbout({
  id,
  hint,
  error,
}: {
  id?: string
  hint?: ReactNode
  error?: ReactNode
}) {
  if (!hint && !error) return null
  return (
    <p
      id={id}
      role={error ? 'alert' : undefined}
      className={`mt-1 text-xs ${error ? 'text-bad' : 'text-ink-3'}`}
    >
      {error || hint}
    </p>
  )
}

export function Segmented<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: T
  options: readonly { value: NoInfer<T>; label: string }[]
  onChange(value: NoInfer<T>): void
}) {
  return (
    <fieldset
      aria-label={label}
      className="inline-flex h-7 items-center rounded-md border border-line-strong p-px"
    >
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
          className="h-full rounded-[5px] px-2 text-xs text-ink-2 hover:text-ink aria-pressed:bg-hover aria-pressed:font-medium aria-pressed:text-ink quick transition-colors"
        >
          {option.label}
        </button>
      ))}
    </fieldset>
  )
}

export function Choices<T extends string>({
  legend,
  name,
  value,
  options,
  onChange,
}: {
  legend: string
  name: string
  value: T
  options: readonly { value: NoInfer<T>; label: string; about: ReactNode }[]
  onChange(value: NoInfer<T>): void
}) {
  return (
    <fieldset>
      <legend className="mb-1 text-xs font-medium text-ink-2">{legend}</legend>
      {options.map((option) => (
        <label key={option.value} className="flex cursor-pointer items-start gap-2.5 py-1">
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={value === option.value}
            onChange={() => onChange(option.value)}
            className="mt-[3.5px] accent-(--accent-fill)"
          />
          <span>
            {option.label}
            <span className="block text-xs text-ink-3">{option.about}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}

export function Checkbox({
  label,
  about,
  checked,
  mixed = false,
  disabled = false,
  onChange,
}: {
  label: string
  about?: ReactNode
  checked: boolean
  /** Some but not all of the values that the checkbox stands for are checked. */
  mixed?: boolean
  disabled?: boolean
  onChange(checked: boolean): void
}) {
  return (
    <label className="flex w-fit cursor-pointer items-start gap-2.5 py-0.5">
      <input
        ref={(input) => {
          // HTML has no attribute for the indeterminate state.
          if (input) input.indeterminate = mixed
        }}
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onChange(event.target.checked)}
        className="mt-[3.5px] accent-(--accent-fill)"
      />
      <span>
        {label}
        {about && <span className="block text-xs text-ink-3">{about}</span>}
      </span>
    </label>
  )
}
