// Entry point of the server process.
import './stop-request.ts'

await import('./main.ts')
