import { json } from '../call.ts'
import type { Simulation } from '../simulation.ts'
import type { Handler } from './dialect.ts'
import { exposition } from './prometheus.ts'
import { errorAnswer } from './vllm-answers.ts'

/** Sleep and wake routes of vLLM's development mode. */
export function lifecycle(simulation: Simulation): Record<string, Handler> {
  const sleep: Handler = (call) => {
    simulation.ledger.lifecycle(call.route)
    const mode = call.query.get('mode') ?? 'abort'
    const level = Number(call.query.get('level') ?? 1)
    if (!['abort', 'wait', 'keep'].includes(mode) || ![0, 1, 2].includes(level)) {
      call.send(errorAnswer(simulation, 400, 'BadRequestError', 'no such mode or level'))
      return
    }
    if (!simulation.settings.sleeps) {
      call.send({ status: 200, body: '' })
      return
    }
    simulation
      .sleep(mode as 'abort' | 'wait' | 'keep', level as 0 | 1 | 2)
      .then(() => call.send({ status: 200, body: '' }))
  }
  const wake: Handler = (call) => {
    simulation.ledger.lifecycle(call.route)
    const tags = call.query.getAll('tags')
    simulation.wake(tags.length > 0 ? tags : null).then(() => call.send({ status: 200, body: '' }))
  }
  return {
    'POST /sleep': sleep,
    'POST /wake_up': wake,
    'GET /is_sleeping': (call) => call.send(json(200, { is_sleeping: simulation.asleep })),
    'POST /collective_rpc': (call) => {
      const method = (call.json() as { method?: unknown } | null | undefined)?.method
      if (method === 'reload_weights') simulation.reloadWeights()
      call.send(json(200, { results: [null] }))
    },
  }
}

export function metrics(simulation: Simulation): Handler {
  return (call) => {
    const load = simulation.reportedLoad()
    if (load === null) {
      call.send(json(404, { detail: 'Not Found' }))
      return
    }
    const parts = simulation.asleepParts
    const state = !simulation.asleep
      ? 'awake'
      : parts.has('weights')
        ? 'weights_offloaded'
        : 'discard_all'
    const { cache } = simulation
    const sleepStates = ['awake', 'weights_offloaded', 'discard_all'].map(
      (name) =>
        ['vllm:engine_sleep_state', 'gauge', name === state ? 1 : 0, { sleep_state: name }] as [
          string,
          'gauge',
          number,
          Record<string, string>,
        ],
    )
    call.send(
      exposition(
        [
          ['vllm:num_requests_running', 'gauge', load.running],
          ['vllm:num_requests_waiting', 'gauge', load.waiting],
          ['vllm:kv_cache_usage_perc', 'gauge', 0],
          ...sleepStates,
          ['vllm:prefix_cache_queries_total', 'counter', cache.queryTokens],
          ['vllm:prefix_cache_hits_total', 'counter', cache.hitTokens],
          ['vllm:num_preemptions_total', 'counter', 0],
        ],
        { engine: '0', model_name: simulation.settings.model },
      ),
    )
  }
}
