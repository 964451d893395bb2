import { parseArgs } from 'node:util'
import { z } from 'zod'
import { BehaviourChange, changed, PLAIN_BEHAVIOUR } from './behaviour.ts'
import { REFERENCE_VERSION, startReferenceRm, WHAT_IT_IS } from './server.ts'

const USAGE = `node testkit/reference-rm/main.ts [options]

A reward-model server that speaks vLLM's /classify.
It is a ${WHAT_IT_IS}.

  --port 8000            0 takes a free one; the address is printed as one JSON line
  --host 127.0.0.1
  --model reference-rm   the name it serves
  --max-model-len 32768  in tokens, counted as characters / 4
  --vllm-version ${REFERENCE_VERSION}
                         the release it says it is: those before 0.12.0 are sent texts, not conversations
  --score features       features | hash (a number from the text's tail) | constant (0.5)
  --delay-ms 0           every request waits this long
  --delay 100            or uniform:100,4000 (ms)
  --slow-share 0.005     this share of the texts waits --slow-ms instead
  --slow-ms 30000
  --delay-by text        text (the same text waits the same again) | arrival (drawn anew)
  --fault none           nan | null | html | redirect | status:503 | hang | drop
  --fault-share 1        share of the requests it strikes
  --fault-by arrival     arrival | text
  --concurrency 0        texts worked on at once, the others wait in line; 0: no limit
  --seed 1               of the draws
  --exit-with-stdin      ends when its standard input does, so that no parent leaves it behind

GET /__control tells settings and counters; POST /__control changes them (loopback only):
  {"delay":"uniform:100,4000","slowShare":0.005,"slowMs":30000}`

try {
  await main()
} catch (error) {
  console.error(error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message)
  process.exitCode = 1
}

async function main(): Promise<void> {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const { values } = parseArgs({
    options: {
      port: text,
      host: text,
      model: text,
      'max-model-len': text,
      'vllm-version': text,
      score: text,
      'delay-ms': text,
      delay: text,
      'slow-share': text,
      'slow-ms': text,
      'delay-by': text,
      fault: text,
      'fault-share': text,
      'fault-by': text,
      concurrency: text,
      seed: text,
      'exit-with-stdin': flag,
      help: flag,
    },
  })
  if (values.help) {
    console.log(USAGE)
    return
  }
  const integer = z.coerce.number().int()
  const change = BehaviourChange.parse({
    score: values.score,
    delayMs: values['delay-ms'],
    delay: values.delay,
    slowShare: values['slow-share'],
    slowMs: values['slow-ms'],
    delayBy: values['delay-by'],
    fault: values.fault,
    faultShare: values['fault-share'],
    faultBy: values['fault-by'],
    concurrency: values.concurrency,
    seed: values.seed,
  })
  const server = await startReferenceRm({
    port: integer
      .min(0)
      .max(65_535)
      .parse(values.port ?? 8000),
    host: values.host ?? '127.0.0.1',
    model: values.model ?? 'reference-rm',
    maxModelLen: integer.min(1).parse(values['max-model-len'] ?? 32_768),
    ...(values['vllm-version'] === undefined ? {} : { version: values['vllm-version'] }),
    behaviour: changed(PLAIN_BEHAVIOUR, change),
  })
  const { url, port, model } = server
  console.log(JSON.stringify({ url, port, model, pid: process.pid, what: WHAT_IT_IS }))

  const stop = () => {
    server.close().then(() => process.exit(0))
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  if (values['exit-with-stdin']) process.stdin.on('end', stop).on('error', stop).resume()
}
