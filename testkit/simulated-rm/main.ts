import { parseArgs } from 'node:util'
import { z } from 'zod'
import { startControl } from './control.ts'
import { ServerOptions, type ServerOptionsInput } from './options.ts'
import { SimulatedServer, WHAT_IT_IS } from './server.ts'

const USAGE = `node testkit/simulated-rm/main.ts [options]

Simulated reward-model servers. Each is a ${WHAT_IT_IS}.

  --servers 1               number of servers in this process; with --port they use consecutive ports
  --dialect vllm            vllm | sglang | tei | llamacpp | chat
  --port 0                  0: free ports; the URLs are printed as one JSON line
  --host 127.0.0.1
  --model simulated-rm      name of the model
  --serves classify         classify | token | pair | generate
  --version 0.20.0          reported version; for vLLM it decides which parameters are read
  --labels 1                labels of the model's head; the last label's logit is the score
  --has-chat-template true  vLLM: false refuses messages; a cross-encoder has none by default
  --sleeps true             vLLM: false makes /sleep answer 200 without effect
  --activation version      version | honored | ignored | inverted | identity | softmax (llama.cpp's Qwen3 rank heads)
  --api-key KEY
  --score hash              hash (of the text and --weights) | features (a linear model) | constant (0.5)
  --max-model-len 32768     in tokens of --chars-per-token 3.6 characters
  --weights 1               seed of the weights; other weights give other scores
  --tokens-per-second N     shared by the texts in progress; without it tokens cost no time
  --saturation 8            number of concurrent texts that use the full token rate
  --running 256             maximum number of texts in progress; further texts wait
  --speed 1                 factor of the speed; 0.35 simulates a slow server
  --prefix-groups 0         prompts in the prefix cache
  --latency constant:0      ms per text in addition to its tokens: constant:20, uniform:10,50, lognormal:median,sigma or
                            exponential:mean
  --slow-share 0            share of the texts that take --slow-ms instead of the latency
  --slow-ms 0
  --draw-by arrival         arrival | text: a text has the same latency and faults each time
  --token-delay-ms 0        time between two tokens of a judge's reply
  --reply-tokens 24         minimum tokens of a judge's reply
  --max-queued N            number of texts in flight beyond which the server answers 503
  --permits 512             TEI: maximum number of concurrent inputs
  --loading-ms 0            llama.cpp: time after its start during which it answers "Loading model"
  --seed 1                  seed of all draws
  --faults '{"slow":0.1}'   JSON, as in POST /__control
  --exit-with-stdin         ends when its standard input closes, so that it never outlives its parent

POST /__control changes a running server, GET /__stats returns its counters (both on loopback only). The printed
control URL accepts both for every server, including dead servers: ?server=0, or without it all servers.`

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
