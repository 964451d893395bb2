import { parentPort, workerData } from 'node:worker_threads'
import { importConfig } from './import-config.ts'

// The thread of one import: translates the text it was started with, answers, and ends.
parentPort?.postMessage(importConfig((workerData as { text: string }).text))
