import type { ExportFormat } from '../../server/contract/export.ts'
import { saveFile } from '../ui/save-file.ts'

/** The largest export that the page buffers. Larger exports need the direct download. */
export const MAX_BUFFERED_BYTES = 256 << 20
const REPORT_EVERY_MS = 120

export type PageExportFormat = Exclude<ExportFormat, 'verl'>

/**
 * Streams an export, counts its rows, and saves it as a file. The rows of a Parquet file are not counted: `rows` is
 * then null.
 * @throws an Error with the service's message, or an Error if the export is too large for the page
 */
export async function downloadExport(
  address: string,
  format: PageExportFormat,
  signal: AbortSignal,
  onProgress: (rows: number | null, bytes: number) => void,
): Promise<{ rows: number | null; bytes: number; name: string }> {
  const answer = await fetch(address, { signal })
  if (!answer.ok || answer.body === null) throw new Error(await refusalOf(answer))
  const parts: BlobPart[] = []
  const counter = format === 'parquet' ? null : new RowCounter(format === 'csv')
  let bytes = 0
  let reportedAt = 0
  for await (const chunk of chunksOf(answer.body)) {
    parts.push(chunk)
    bytes += chunk.byteLength
    counter?.push(chunk)
    if (bytes > MAX_BUFFERED_BYTES) {
      throw new Error(
        `The export exceeds the page limit of ${MAX_BUFFERED_BYTES >> 20} MiB. Use the direct download link instead.`,
      )
    }
    const now = performance.now()
    if (now - reportedAt < REPORT_EVERY_MS) continue
    reportedAt = now
    onProgress(counter?.rows ?? null, bytes)
  }
  const name = /filename="([^"]+)"/.exec(answer.headers.get('content-disposition') ?? '')?.[1]
  const file = name ?? `samples.${format}`
  saveFile(new Blob(parts, { type: answer.headers.get('content-type') ?? 'text/plain' }), file)
  return { rows: counter?.rows ?? null, bytes, name: file }
}

/** Counts rows. Line ends within quotes and the header do not count. */
export class RowCounter {
  readonly #csv: boolean
  #quoted = false
  #lines = 0

  constructor(csv: boolean) {
    this.#csv = csv
  }

  push(chunk: Uint8Array): void {
    for (const byte of chunk) {
      if (byte === 0x22) this.#quoted = this.#csv && !this.#quoted
      else if (byte === 0x0a && !this.#quoted) this.#lines++
    }
  }

  get rows(): number {
    return Math.max(0, this.#lines - (this.#csv ? 1 : 0))
  }
}

async function* chunksOf(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield value
  }
}

async function refusalOf(answer: Response): Promise<string> {
  const body = (await answer.json().catch(() => null)) as {
    error?: { message?: string; data?: { hint?: string }; hint?: string }
  } | null
  const hint = body?.error?.data?.hint ?? body?.error?.hint ?? ''
  return `${body?.error?.message ?? `The service responded with HTTP ${answer.status}.`} ${hint}`.trim()
}
