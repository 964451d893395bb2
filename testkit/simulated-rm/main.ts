import { parseArgs } from 'node:util'
import { z } from 'zod'
import { startControl } from './control.ts'
import { ServerOptions, type ServerOptionsInput } from './options.ts'
import { SimulatedServer, WHAT_IT_IS } from './server.ts'

const USAGE = `node testkit/simulated-rm/main.ts [options]

Simulated reward-model servers. Each is a ${WHAT_IT_IS}.

  --servers 1               how many, in this process; with --port they take it and those after it
  --dialect vllm            vllm | sglang | tei | llamacpp | chat
  --port 0                  0 takes free ones; the addresses are printed as one JSON line
  --host 127.0.0.1
  --model simulated-rm      the name they serve
  --serves classify         classify | token | pair | generate
  --version 0.20.0          what they say they are; decides which words vLLM reads
  --labels 1                of the head; the score is the last one's
  --has-chat-template true  vLLM: false refuses messages; a cross-encoder has none by default
  --sleeps true             vLLM: false answers /sleep with 200 and stays awake
  --activation version      version | honoured | ignored | inverted | identity | softmax (llama.cpp: as it serves Qwen3 heads)
  --api-key KEY
  --score hash              hash (follows from the text and --weights) | features (a linear model) | constant (0.5)
  --max-model-len 32768     in tokens of --chars-per-token 3.6 characters
  --weights 1               seed of the weights: other weights, other scores
  --tokens-per-second N     shared by what is in flight; without it tokens cost no time
  --saturation 8            texts from which on a server is fully used
  --running 256             most texts worked on at once, the others wait
  --speed 1                 0.35 is a slow server
  --prefix-groups 0         prompts in the prefix cache
  --latency 20              beside the tokens: constant:20, uniform:10,50, lognormal:median,sigma, exponential:mean (ms)
  --slow-share 0            share of the texts that take --slow-ms instead
  --slow-ms 0
  --draw-by arrival         arrival | text: latencies and faults of a text are the same each time
  --token-delay-ms 0        between the tokens of a judge's reply of at least --reply-tokens 24
  --max-queued N            503 beyond so many texts
  --permits 512             TEI: inputs at once
  --loading-ms 0            llama.cpp: "Loading model" for so long
  --seed 1                  of the draws
  --faults '{"slow":0.1}'   JSON, as in POST /__control
  --exit-with-stdin         ends when its standard input does, so that no parent leaves it behind

POST /__control changes a server while it runs, GET /__stats tells what it counted (loopback only). The control
address that is printed takes both for every server, dead ones too: ?server=0, or all without it.`

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
      servers: text,
      dialect: text,
      port: text,
      host: text,
      model: text,
      serves: text,
      version: text,
      activation: text,
      labels: text,
      'has-chat-template': text,
      sleeps: text,
      'api-key': text,
      'max-model-len': text,
      'chars-per-token': text,
      weights: text,
      'tokens-per-second': text,
      saturation: text,
      running: text,
      speed: text,
      'prefix-groups': text,
      latency: text,
      score: text,
      'slow-share': text,
      'slow-ms': text,
      'draw-by': text,
      'token-delay-ms': text,
      'reply-tokens': text,
      'max-queued': text,
      permits: text,
      'loading-ms': text,
      seed: text,
      faults: text,
      'exit-with-stdin': flag,
      help: flag,
    },
  })
  if (values.help) {
    console.log(USAGE)
    return
  }
  const { servers: wanted, faults, help: _, 'exit-with-stdin': withStdin, ...rest } = values
  const given = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [
      name.replace(/-(\w)/g, (_dash, letter: string) => letter.toUpperCase()),
      value,
    ]),
  )
  const options = { ...given, faults: faults && JSON.parse(faults) } as ServerOptionsInput
  const { port: first, seed } = ServerOptions.parse(options)
  const count = z.coerce
    .number()
    .int()
    .min(1)
    .max(1000)
    .parse(wanted ?? 1)
  const servers: SimulatedServer[] = []
  for (let i = 0; i < count; i++) {
    const port = first === 0 ? 0 : first + i
    servers.push(await SimulatedServer.start({ ...options, port, seed: seed + i }))
  }
  const control = await startControl(servers)
  const [{ url, port, model }] = servers as [SimulatedServer]
  console.log(
    JSON.stringify({
      url,
      port,
      model,
      urls: servers.map((server) => server.url),
      control: control.url,
      pid: process.pid,
      what: WHAT_IT_IS,
    }),
  )
  const stop = () => {
    Promise.all([control.close(), ...servers.map((server) => server.close())]).then(() =>
      process.exit(0),
    )
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  if (withStdin) process.stdin.on('end', stop).on('error', stop).resume()
}
