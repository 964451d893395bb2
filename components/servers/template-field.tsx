import { TextArea } from '../ui/field.tsx'

/** The chat template of a reward model: how prompt and response are written out for it. */
export function TemplateField({
  value,
  error,
  disabled,
  onChange,
}: {
  value: string
  error: string | undefined
  disabled?: boolean
  onChange(text: string): void
}) {
  return (
    <TextArea
      label="Chat template"
      mono
      rows={value === '' ? 2 : 6}
      placeholder="{% for message in messages %}…"
      hint="Jinja, or the whole tokenizer_config.json of the model. Empty: prompt and response go as messages, or as text with a newline between."
      disabled={disabled}
      value={value}
      error={error}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
