export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  // The object URL must stay valid until the browser has started to read it.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

export function saveCsv(title: string, rows: readonly (readonly (string | number)[])[]): void {
  const name = title.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, '-')
  const text = rows.map((cells) =>
    cells.map((cell) => `"${String(cell).replaceAll('"', '""')}"`).join(','),
  )
  saveFile(new Blob([text.join('\n'), '\n'], { type: 'text/csv' }), `${name}.csv`)
}
