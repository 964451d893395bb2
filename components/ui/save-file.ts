/** Downloads a blob as a file. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  // The address must last until the browser has started to read it.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
