import { TextArea } from '../ui/field.tsx'

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
      hint="Jinja, or the tokenizer_config.json of the model. If empty, prompt and response are sent as messages, or as text joined by a newline."
      disabled={disabled}
      value={value}
      error={error}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
