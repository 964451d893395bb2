import { parentPort, workerData } from 'node:worker_threads'
import { importConfig } from './import-config.ts'

// The thread of `importOffLoop`: it translates one text, posts the result, and ends.
const { text, address } = workerData as { text: string; address: string }
parentPort?.postMessage(importConfig(text, address))
