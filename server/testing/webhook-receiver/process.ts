import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Child, startNode } from '../../../examples/processes/child.ts'
import { rawRequest } from '../trpc-call.ts'
import type { ReceivedCall } from './main.ts'

/** A receiver of webhooks in its own process. */
export interface WebhookReceiver extends Child {
  url: string
  port: number
  /** What has come, in order. */
  received(): Promise<ReceivedCall[]>
}

const SCRIPT = fileURLToPath(new URL('./main.ts', import.meta.url))

/** Starts one, on a port that is free or on this one. */
export async function startWebhookReceiver(port = 0): Promise<WebhookReceiver> {
  const child = await startNode(SCRIPT, [String(port)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.process.stdout! })
  const told = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    child.ended,
  ])
  lines.close()
  if (typeof told !== 'string')
    throw new Error(`the receiver ended at once (exit code ${told.code})`)
  const { port: own } = JSON.parse(told) as { port: number }
  const url = `http://127.0.0.1:${own}`
  return {
    ...child,
    url,
    port: own,
    received: async () => (await rawRequest(`${url}/__received`, {})).json as ReceivedCall[],
  }
}
