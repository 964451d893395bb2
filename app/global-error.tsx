'use client'

/** The outermost error boundary, for errors in the layout itself. It renders without the dashboard's styles. */
export default function GlobalError({ error, reset }: { error: Error; reset: () => void }) {
  return (
    <html lang="en">
      <body style={{ fontFamily: 'system-ui, sans-serif', padding: 40, maxWidth: 560 }}>
        <h1 style={{ fontSize: 18 }}>Dashboard failed to render</h1>
        <p>The service is not affected, and batches continue. Error message:</p>
        <pre style={{ whiteSpace: 'pre-wrap' }}>{error.message}</pre>
        <button type="button" onClick={reset}>
          Try again
        </button>
      </body>
    </html>
  )
}
