/** Saves a blob as a file of the user. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  // After the browser has started to read it.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
