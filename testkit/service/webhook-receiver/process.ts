import { fileURLToPath } from 'node:url'
import type { Child } from '../../processes/child.ts'
import { startServerProcess } from '../../processes/server-process.ts'
import { rawRequest } from '../../processes/trpc-call.ts'
import type { ReceivedCall } from './main.ts'

export interface WebhookReceiver extends Child {
  url: string
  port: number
  received(): Promise<ReceivedCall[]>
}

const SCRIPT = fileURLToPath(new URL('./main.ts', import.meta.url))

export async function startWebhookReceiver(port = 0): Promise<WebhookReceiver> {
  const { child, printed } = await startServerProcess<{ port: number }>('the receiver', SCRIPT, [
    String(port),
  ])
  const { port: own } = printed
  const url = `http://127.0.0.1:${own}`
  return {
    ...child,
    url,
    port: own,
    received: async () => (await rawRequest(`${url}/__received`, {})).json as ReceivedCall[],
  }
}
