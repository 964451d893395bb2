import './stop-request.ts'
import './v8-flags.ts'

await import('./main.ts')
