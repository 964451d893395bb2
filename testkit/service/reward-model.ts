import { type ReferenceRmProcess, startReferenceRmProcess } from '../processes/reference-rm.ts'
import type { BehaviourChange } from '../reference-rm/behaviour.ts'
import type { ReferenceRmCounters } from '../reference-rm/server.ts'
import { rawRequest } from './trpc-call.ts'

/** What `/__control` takes: the texts of the command line's options. */
export type RmChange = {
  [K in keyof BehaviourChange]?: K extends 'delay' | 'fault' ? string : BehaviourChange[K]
} & { resetCounters?: boolean }

/** A reward-model server in its own process, and what it saw. */
export interface RewardModel {
  url: string
  model: string
  pid: number
  counters(): Promise<ReferenceRmCounters>
  /** Changes its behaviour while it runs; counters begin anew with `resetCounters`. */
  set(change: RmChange): Promise<void>
  /** `kill -9`. */
  kill9(): Promise<void>
  stop(): Promise<void>
}

/** Starts one on a free port, with options of testkit/reference-rm. */
export async function startRewardModel(args: readonly string[] = []): Promise<RewardModel> {
  const rm: ReferenceRmProcess = await startReferenceRmProcess(args)
  const control = async (body?: string) => {
    const answer = await rawRequest(
      `${rm.url}/__control`,
      body === undefined
        ? {}
        : { method: 'POST', body, headers: { 'content-type': 'application/json' } },
    )
    if (answer.status !== 200) throw new Error(`/__control: ${answer.text}`)
    return answer.json as { counters: ReferenceRmCounters }
  }
  return {
    url: rm.url,
    model: rm.model,
    pid: rm.pid,
    counters: async () => (await control()).counters,
    async set(change) {
      await control(JSON.stringify(change))
    },
    async kill9() {
      rm.process.kill('SIGKILL')
      await rm.ended
    },
    async stop() {
      await rm.stop()
    },
  }
}
