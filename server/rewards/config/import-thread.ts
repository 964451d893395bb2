import { parentPort, workerData } from 'node:worker_threads'
import { importConfig } from './import-config.ts'

// Runs in the worker thread that `importOffLoop` starts.
const { text, address } = workerData as { text: string; address: string }
parentPort?.postMessage(importConfig(text, address))
