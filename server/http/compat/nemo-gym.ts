import { z } from 'zod'
import type { Dialect } from './dialect.ts'
import { aggregateMetrics } from './gym-metrics.ts'
import { numberOf } from './openrlhf.ts'
import { parseBody } from './parse-body.ts'
import { messagesOf, ResponseItem, responseText } from './response-items.ts'

const Body = z.looseObject({
  responses_create_params: z.looseObject({ input: z.union([z.string(), z.array(ResponseItem)]) }),
  response: z.looseObject({ output: z.array(ResponseItem) }),
  _ng_task_index: z.union([z.number(), z.string()]).nullish(),
})

/** Fields of a task that may hold the ground truth; the first one that is present is used. */
const TRUTHS = ['expected_answer', 'ground_truth', 'answer', 'label']

/**
 * NeMo-Gym's resources server, `POST /verify`: takes the task with the model's response and answers with the same
 * object plus `reward`. A failed sample gets a failure class, so that Gym counts the sample as failed and retries it.
 * Source: nemo_gym/base_resources_server.py.
 */
export const nemoGym: Dialect = {
  name: 'nemo-gym',
  scorePath: '/verify',
  carriesFailure: true,
  // Calls share no state, so a stored response may be verified again.
  others: {
    'POST /seed_session': {},
    'GET /reverify_mode': 'stateless',
    'POST /aggregate_metrics': aggregateMetrics,
  },

  read(body, options) {
    const { responses_create_params, response, _ng_task_index, ...task } = parseBody(Body, body)
    const { input } = responses_create_params
    const field = options.groundTruth ?? TRUTHS.find((key) => task[key] !== undefined)
    return [
      {
        uid: _ng_task_index == null ? null : `task-${_ng_task_index}`,
        dataSource: typeof task.data_source === 'string' ? task.data_source : null,
        prompt:
          typeof input === 'string' ? input : messagesOf(input, 'responses_create_params.input'),
        response: responseText(response.output, 'response.output'),
        groundTruth: field === undefined ? null : (task[field] ?? null),
        extraInfo: task,
      },
    ]
  },

  answer(body, ends) {
    const [end] = ends
    if (end === undefined) return body
    const { result, reward, failed } = end
    if (failed) {
      return {
        ...(body as object),
        reward,
        _ng_failure_class: 'judge_failed',
        _ng_failure_judge_error:
          result.detail === null ? `${result.reason}` : `${result.reason}: ${result.detail}`,
      }
    }
    const numbers = Object.entries(result.rewardExtraInfo ?? {}).flatMap(([key, value]) => {
      const number = numberOf(value)
      return number === null || key in (body as object) || key === 'reward' ? [] : [[key, number]]
    })
    // Gym aggregates only numbers at the top level.
    return { ...(body as object), ...Object.fromEntries(numbers), reward }
  },
}
