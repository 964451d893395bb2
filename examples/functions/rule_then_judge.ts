/**
 * A reward that calls a judge only when needed: a boxed answer that equals the ground truth scores 1, and a judge rates
 * all other responses. The class is instantiated once per process with the batch's kwargs. Thousands of calls can wait
 * for the judge concurrently in one process.
 * "reward": {"function": {"path": "rule_then_judge.ts", "kwargs": {"model": "my-judge"}}, "timeoutMs": 60000}
 */
interface Input {
  solutionStr: string
  groundTruth: unknown
  prompt: string | { role: string; content: string }[]
}

interface Context {
  router: {
    chat(request: {
      model: string
      messages: { role: string; content: string }[]
      maxTokens?: number
    }): Promise<{ content: string }>
  }
  log: { info(message: string, fields?: object): void }
}

export default class RuleThenJudge {
  readonly model: string

  constructor({ model }: { model: string }) {
    this.model = model
  }

  async computeScore({ solutionStr, groundTruth, prompt }: Input, { router, log }: Context) {
    const answer = /\\boxed\{([^{}]*)\}/.exec(solutionStr)?.[1]?.trim()
    if (answer !== undefined && answer === String(groundTruth)) {
      return { score: 1, by: 'rule', answer }
    }
    const question = typeof prompt === 'string' ? prompt : (prompt.at(-1)?.content ?? '')
    // An error of the router fails the sample with its reason, such as `no_server` or `timeout`.
    const { content } = await router.chat({
      model: this.model,
      maxTokens: 512,
      messages: [
        {
          role: 'user',
          content: `Question: ${question}\nReference: ${groundTruth}\nAnswer: ${solutionStr}\nDoes the answer mean the same as the reference? Rate it from 1 to 10 as [[n]].`,
        },
      ],
    })
    const rating = /\[\[(\d+)\]\]/.exec(content)?.[1]
    // An error thrown here fails the sample with `function_error`. Its message becomes the failure's detail.
    if (rating === undefined)
      throw new Error(`no rating in ${JSON.stringify(content.slice(0, 80))}`)
    log.info('judged', { rating })
    return { score: (Number(rating) - 1) / 9, by: 'judge', answer: answer ?? null, rating }
  }
}
