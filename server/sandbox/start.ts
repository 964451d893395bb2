// Entry point of the sandbox process: `npm run sandbox`, and the local sandbox of a server or a worker.
import '../stop-request.ts'

await import('./main.ts')
