'use client'

/** The last resort, when not even the layout could be drawn: no styles to rely on. */
export default function GlobalError({ error, reset }: { error: Error; reset: () => void }) {
  return (
    <html lang="en">
      <body style={{ fontFamily: 'system-ui, sans-serif', padding: 40, maxWidth: 560 }}>
        <h1 style={{ fontSize: 18 }}>The dashboard could not be drawn</h1>
        <p>The service is not touched by this: batches go on. What the page said:</p>
        <pre style={{ whiteSpace: 'pre-wrap' }}>{error.message}</pre>
        <button type="button" onClick={reset}>
          Draw it again
        </button>
      </body>
    </html>
  )
}
