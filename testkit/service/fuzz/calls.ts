import fc from 'fast-check'
import { z } from 'zod'
import { EXPORT_PATH, ExportFormat } from '../../../server/contract/export.ts'
import { IMAGES_PATH } from '../../../server/contract/images.ts'
import { PROXIED_PATHS } from '../../../server/contract/proxied-paths.ts'
import { SAMPLE_FILTER_NAMES } from '../../../server/contract/sample-filter.ts'
import { MODELS_PATH } from '../../../server/http/proxy/routes.ts'
import { type AnyProcedure, PROCEDURES } from '../procedures.ts'
import { type Body, bodiesOf, HOSTILE_VALUES, jsonText, withChanges } from './hostile.ts'
import { type InputSchema, inputsOf, type Known } from './inputs.ts'

export interface Call {
  /** The part of the service that is called: a procedure's path, or a name such as `export`. */
  surface: string
  method: string
  /** Path and query. */
  path: string
  headers: Record<string, string>
  body: Buffer | null
  /** The whole request as bytes for a bare socket, in place of the fields above. It need not be valid HTTP. */
  raw?: Buffer
  /** Whether the answer may take long or never end; the caller then disconnects after a while. */
  lasts: boolean
}

export interface Target {
  known: Known
  /** Values of the header Authorization. Null means a call without the header. */
  authorizations: readonly (string | null)[]
  pages: boolean
}

/** Procedures that wait, score or stream. */
const LASTING: ReadonlySet<string> = new Set([
  'batches.next',
  'batches.wait',
  'samples.score',
  'rewards.try',
  'live.events',
])

/** Procedures that are called rarely, because each call costs as much as hundreds of others. */
const RARE: ReadonlySet<string> = new Set(['demo.load', 'retention.deleteRun', 'retention.start'])

const hostileText = fc.constantFrom(...HOSTILE_VALUES).map((value) => headerless(String(value)))
const escapedText = fc.oneof(
  hostileText.map((text) => encodeURIComponent(text.toWellFormed().slice(0, 2_000))),
  fc.constantFrom('%', '%zz', '%00', '%2e%2e', '%ff', '+', '%F0%9F', '..%2f', '%u0041'),
)

export function callsOf(target: Target): fc.Arbitrary<Call> {
  const surfaces: [weight: number, calls: fc.Arbitrary<Call>][] = [
    [60, procedureCalls(target)],
    [5, batchedCalls(target)],
    [6, exportCalls(target)],
    [2, imageCalls()],
    [8, dialectCalls(target)],
    [5, routerCalls(target)],
    [3, otherCalls()],
    [5, rawCalls(target)],
    ...(target.pages ? ([[6, pageCalls(target)]] as [number, fc.Arbitrary<Call>][]) : []),
  ]
  const calls = fc.oneof(...surfaces.map(([weight, arbitrary]) => ({ weight, arbitrary })))
  const extras = fc.oneof(
    { weight: 8, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.constantFrom(...ODD_HEADERS) },
  )
  const authorizations = fc.constantFrom(...target.authorizations)
  return fc.tuple(calls, extras, authorizations).map(([call, extra, authorization]) => ({
    ...call,
    headers: {
      ...(authorization === null ? {} : { authorization }),
      ...call.headers,
      ...(extra as Record<string, string>),
    },
  }))
}

const ODD_HEADERS: readonly Record<string, string>[] = [
  { 'x-request-id': '../../x' },
  { 'x-request-id': 'a'.repeat(65) },
  { accept: 'text/event-stream' },
  { 'trpc-accept': 'application/jsonl' },
  { 'accept-encoding': 'br;q=nan, gzip;q=9, *;q=-1' },
  { 'x-http-method-override': 'DELETE' },
  { range: 'bytes=0-18446744073709551615' },
  { 'if-none-match': '*' },
  { 'if-none-match': '"'.repeat(3_000) },
  { cookie: `rewardops_session=${'0'.repeat(43)}; rewardops_session=` },
  { cookie: ';=;=__proto__=1;'.repeat(200) },
  { origin: 'null' },
  { origin: 'http://[::1' },
  { 'x-forwarded-proto': 'javascript' },
  { 'x-forwarded-for': '999.1.1.1' },
  { 'x-trpc-source': '\u00ff' },
  { 'last-event-id': '-1' },
  { 'x-model': '__proto__' },
  { 'x-deadline-ms': 'NaN' },
  { 'x-deadline-ms': '0' },
  { te: 'trailers' },
]

const METHODS = fc.oneof(
  { weight: 30, arbitrary: fc.constant(null) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD', 'GET', 'POST'),
  },
)

function procedureCalls({ known }: Target): fc.Arbitrary<Call> {
  const all = PROCEDURES.map(([path, procedure]) => {
    const call = fc
      .tuple(bodiesOf(textsOf(procedure, known)), fc.boolean(), METHODS)
      .map(([body, inAddress, method]): Call => {
        const isQuery = procedure._def.type !== 'mutation' && inAddress
        return addressed(path, `/api/trpc/${path}`, body, isQuery, method)
      })
    return { weight: RARE.has(path) ? 1 : 30, arbitrary: call }
  })
  return fc.oneof(...all)
}

function textsOf({ _def }: AnyProcedure, known: Known): fc.Arbitrary<string> {
  const schema = z.toJSONSchema(_def.inputs[0] as z.ZodType, {
    io: 'input',
    unrepresentable: 'any',
  })
  return withChanges(inputsOf(schema as InputSchema, known)).map(jsonText)
}

function batchedCalls({ known }: Target): fc.Arbitrary<Call> {
  const one = fc
    .constantFrom(...PROCEDURES)
    .chain(([path, procedure]) => textsOf(procedure, known).map((text) => ({ path, text })))
  const batch = fc.oneof(
    { weight: 5, arbitrary: fc.constant('1') },
    hostileText.map((text) => encode(text.slice(0, 1_000))),
  )
  return fc
    .tuple(fc.array(one, { maxLength: 3 }), batch, fc.boolean())
    .chain(([calls, n, inAddress]) => {
      const paths = calls.map(({ path }) => path).join(',')
      const text = `{${calls.map(({ text }, i) => `"${i}":${text || 'null'}`).join(',')}}`
      return bodiesOf(fc.constant(text)).map(
        (body): Call => ({
          ...addressed('batched calls', `/api/trpc/${paths}?batch=${n}`, body, inAddress, null),
          lasts: calls.some(({ path }) => LASTING.has(path)),
        }),
      )
    })
}

function addressed(
  surface: string,
  path: string,
  { bytes, headers }: Body,
  inAddress: boolean,
  method: string | null,
): Call {
  // Node's parser refuses longer URLs. Raw calls test those.
  const input = encode(bytes.toString().slice(0, 8_000))
  const rest = { surface, lasts: LASTING.has(surface) }
  if (inAddress && input.length < 5_000) {
    const separator = path.includes('?') ? '&' : '?'
    return {
      ...rest,
      method: method ?? 'GET',
      path: `${path}${separator}input=${input}`,
      headers: {},
      body: null,
    }
  }
  const sends = method !== 'GET' && method !== 'HEAD'
  return {
    ...rest,
    method: method ?? 'POST',
    path,
    headers: sends ? headers : {},
    body: sends ? bytes : null,
  }
}

function exportCalls({ known }: Target): fc.Arbitrary<Call> {
  const names = [...SAMPLE_FILTER_NAMES, 'format', 'texts', 'columns', 'after', 'safe', '__proto__']
  const values = fc.oneof(
    fc.constantFrom(...(known.fields.run ?? []), ...(known.fields.batch ?? [])).map(String),
    fc.constantFrom(
      ...ExportFormat.options,
      'kept',
      'true',
      'scored',
      '0-9',
      '9-0',
      'acc:number:..1',
    ),
    fc.constantFrom(
      'prompt,score',
      'rewardExtraInfo.acc',
      'score,score',
      'b1-0',
      'a:present',
      '::',
    ),
    hostileText,
  )
  const parameter = fc
    .tuple(fc.constantFrom(...names), values)
    .map(([name, value]) => `${name}=${encode(value.slice(0, 2_000))}`)
  return fc
    .tuple(fc.array(parameter, { maxLength: 4 }), METHODS, fc.boolean())
    .map(([parameters, method, named]) => ({
      surface: 'export',
      method: method ?? 'GET',
      path: `${EXPORT_PATH}?${[...(named ? ['batch=b1'] : []), ...parameters].join('&')}`,
      headers: {},
      body: null,
      lasts: true,
    }))
}

function imageCalls(): fc.Arbitrary<Call> {
  const names = fc.oneof(fc.hexaString({ minLength: 64, maxLength: 64 }), escapedText)
  return fc.tuple(names, METHODS).map(([name, method]) => ({
    surface: 'images',
    method: method ?? 'GET',
    path: IMAGES_PATH + name,
    headers: {},
    body: null,
    lasts: false,
  }))
}

const message = fc.record({ role: fc.constantFrom('user', 'assistant'), content: fc.string() })
const item = fc.record(
  {
    type: fc.constantFrom('message', 'function_call', 'reasoning', 'function_call_output'),
    role: fc.constantFrom('user', 'assistant'),
    content: fc.oneof(
      fc.string(),
      fc.array(
        fc.record({ type: fc.constantFrom('output_text', 'input_image'), text: fc.string() }),
      ),
    ),
  },
  { requiredKeys: ['type'] },
)
const text = fc.oneof(fc.string(), fc.string16bits())

/** Valid bodies of each protocol, by the path below `/compat/`. */
const DIALECT_BODIES: readonly [path: string, body: fc.Arbitrary<unknown>][] = [
  [
    'openrlhf/RUN',
    fc.record({ query: fc.array(text), prompts: fc.array(text), labels: fc.array(fc.jsonValue()) }),
  ],
  [
    'slime/RUN',
    fc.record(
      {
        prompt: fc.oneof(text, fc.array(message)),
        response: text,
        label: fc.jsonValue(),
        group_index: fc.nat(),
      },
      { requiredKeys: ['prompt', 'response'] },
    ),
  ],
  [
    'nemo-gym/RUN/verify',
    fc.record({
      responses_create_params: fc.record({ input: fc.oneof(text, fc.array(item)) }),
      response: fc.record({ output: fc.array(item) }),
      expected_answer: fc.jsonValue(),
      _ng_task_index: fc.nat(),
    }),
  ],
  [
    'nemo-gym/RUN/aggregate_metrics',
    fc.record({ verify_responses: fc.array(fc.dictionary(fc.string(), fc.jsonValue())) }),
  ],
  ['nemo-gym/RUN/seed_session', fc.jsonValue()],
  ['nemo-gym/RUN/reverify_mode', fc.jsonValue()],
]

function dialectCalls({ known }: Target): fc.Arbitrary<Call> {
  const options = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        'rule=gsm8k',
        'dataSource=openai/gsm8k',
        'rule=gsm8k&onFailure=0&format=object',
      ),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '',
        'model=none&timeoutMs=50',
        'function=..%2fx.ts:y',
        'kwargs={"a":[',
        'extra=a;b;__proto__',
        'stepGapMs=1e99',
        'manager=dapo&rule=gsm8k',
        'judge=x',
      ),
    },
    { weight: 1, arbitrary: escapedText.map((value) => `rule=${value}`) },
  )
  const runs = fc.oneof(
    {
      weight: 5,
      arbitrary: fc
        .constantFrom(...(known.fields.run ?? ['run']))
        .map((run) => encode(String(run))),
    },
    { weight: 1, arbitrary: escapedText },
  )
  const paths = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...DIALECT_BODIES) },
    {
      weight: 1,
      arbitrary: fc.tuple(
        fc.constantFrom(
          '',
          '__proto__/RUN',
          'openrlhf',
          'slime//',
          'nemo-gym/RUN/k/key/verify',
          'slime/RUN/k/',
        ),
        fc.constant(fc.jsonValue()),
      ),
    },
  )
  return fc.tuple(paths, runs, options).chain(([[path, bodies], run, query]) =>
    fc.tuple(bodiesOf(withChanges(bodies).map(jsonText)), METHODS).map(
      ([body, method]): Call => ({
        ...addressed(
          'dialects',
          `/compat/${path.replace('RUN', run)}?${query}`,
          body,
          false,
          method,
        ),
        lasts: true,
      }),
    ),
  )
}

function routerCalls({ known }: Target): fc.Arbitrary<Call> {
  const model = fc.constantFrom(...(known.fields.model ?? ['none']), 'none', '__proto__')
  const bodies = fc.record(
    {
      model,
      input: fc.oneof(text, fc.array(text)),
      messages: fc.array(message),
      prompt: text,
      query: text,
      documents: fc.array(text),
      text_1: text,
      text_2: fc.array(text),
      stream: fc.boolean(),
      max_tokens: fc.integer(),
    },
    { requiredKeys: ['model'] },
  )
  return fc
    .tuple(
      fc.constantFrom(...PROXIED_PATHS, MODELS_PATH),
      bodiesOf(withChanges(bodies).map(jsonText)),
      METHODS,
    )
    .map(([path, body, method]) => ({
      ...addressed('router address', path, body, path === MODELS_PATH, method),
      path,
      lasts: true,
    }))
}

function otherCalls(): fc.Arbitrary<Call> {
  const paths = fc.oneof(
    fc.constantFrom(
      '/metrics',
      '/healthz',
      '/livez',
      '/readyz',
      '/api/openapi.json',
      '/api/',
      '/api',
    ),
    escapedText.map((text) => `/api/trpc/${text}`),
    escapedText.map((text) => `/api/${text}`),
    escapedText.map((text) => `/metrics?${text}`),
    fc.constantFrom(
      '/api/trpc/',
      '/api/trpc/__proto__',
      '/api/trpc/batches',
      '/api/trpc/batches.__proto__',
      '/api/trpc/,,,?batch=1',
      '/api/trpc/constructor.name',
    ),
  )
  return fc.tuple(paths, METHODS).map(([path, method]) => ({
    surface: 'other paths',
    method: method ?? 'GET',
    path,
    headers: {},
    body: null,
    lasts: false,
  }))
}

const PAGES = [
  '',
  'runs',
  'runs/fuzz-1',
  'runs/fuzz-1/prompts',
  'batches',
  'batches/b1',
  'samples',
  'samples/compare',
  'rewards',
  'monitors',
  'compare',
  'planner',
  'servers',
  'servers/rm',
  'workers',
  'settings',
  'login',
]

const PAGE_HEADERS: readonly Record<string, string>[] = [
  { rsc: '1' },
  { rsc: '1', 'next-router-prefetch': '1' },
  { rsc: '1', 'next-router-segment-prefetch': '/_tree' },
  { rsc: '1', 'next-router-segment-prefetch': '../../x' },
  { rsc: '1', 'next-router-state-tree': '%' },
  { rsc: '1', 'next-router-state-tree': 'null' },
  { rsc: '1', 'next-router-state-tree': encodeURIComponent('["",{"children":["x",{}]}]') },
  { rsc: '1', 'next-router-state-tree': 'a'.repeat(5_000) },
  { 'next-action': '0'.repeat(40) },
  { 'x-middleware-subrequest': 'middleware:middleware:middleware' },
  { 'x-nextjs-data': '1' },
  { 'x-matched-path': '/settings' },
  { 'x-now-route-matches': '1=b1' },
  { 'x-invoke-status': '500' },
  { 'next-url': '//host' },
]

function pageCalls({ known }: Target): fc.Arbitrary<Call> {
  const runs = (known.fields.run ?? []).map((run) => `runs/${encode(String(run))}`)
  const paths = fc.oneof(
    fc.constantFrom(...PAGES, ...runs),
    fc
      .tuple(fc.constantFrom('runs/', 'batches/', 'servers/', 'runs/a/prompts/', ''), escapedText)
      .map((two) => two.join('')),
    fc.constantFrom(
      '_next/static/',
      '_next/static/../../package.json',
      '_next/static/..%2f..%2fpackage.json',
      '_next/image?url=%2Fetc%2Fpasswd&w=64&q=75',
      '_next/image?url=http%3A%2F%2F127.0.0.1%3A1%2F&w=64&q=75',
      '_next/data/x/index.json',
      '_next/webpack-hmr',
      '__nextjs_original-stack-frames',
      'favicon.ico',
      '.env',
      'index',
      'index.rsc',
      'runs.rsc',
      'runs.segments/_tree.segment.rsc',
      '_error',
      '404',
      '500',
      '_not-found',
    ),
  )
  const queries = fc.oneof(
    { weight: 3, arbitrary: fc.constant('') },
    fc.constantFrom('?_rsc=1', '?_rsc=', '?__nextDataReq=1', '?a=1&a=2'),
    escapedText.map((text) => `?q=${text}`),
  )
  const headers = fc.oneof(
    { weight: 2, arbitrary: fc.constant({}) },
    fc.constantFrom(...PAGE_HEADERS),
  )
  return fc.tuple(paths, queries, headers, METHODS).map(([path, query, given, method]) => ({
    surface: 'pages',
    method: method ?? 'GET',
    path: `/${path}${query}`,
    headers: given as Record<string, string>,
    body: null,
    lasts: false,
  }))
}

/** Requests that HTTP libraries refuse to send. HOST stands for the service's host and port. */
const RAW_REQUESTS: readonly string[] = [
  'GET * HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'TRACE / HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'TRACE /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'CONNECT example.invalid:443 HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET http://example.invalid/api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET //example.invalid/ HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET /\\example.invalid HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET ///// HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET //api/export/samples?batch=b1 HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET //compat/slime/run HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET /../../etc/passwd HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET /api/../metrics HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET /api/export/../trpc/session.get HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET /_next/static/..%5c..%5cpackage.json HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET ?a HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET http:// HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET http://[::1/api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'POST //[/api/trpc/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n',
  'GET /api/trpc/session.get?input=%zz HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'GET / HTTP/1.1\r\n\r\n',
  'GET / HTTP/1.1\r\nHost:\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: HOST\r\nHost: example.invalid\r\n\r\n',
  'GET /healthz HTTP/1.0\r\n\r\n',
  'GET /healthz\r\n\r\n',
  'GET / HTTP/9.9\r\nHost: HOST\r\n\r\n',
  'get / HTTP/1.1\r\nHost: HOST\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n',
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999999999999999\r\n\r\n',
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}',
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
  'POST /api/trpc/batches.submit HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n',
  'POST /api/trpc/batches.submit HTTP/1.1\r\nHost: HOST\r\nExpect: 200-maybe\r\nContent-Length: 0\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAA\r\n\r\n',
  'GET /_next/webpack-hmr HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: HOST\r\nX-A: a\u0000b\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: HOST\r\n X-Folded: a\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: HOST\r\nX A: b\r\n\r\n',
  'GET / HTTP/1.1\nHost: HOST\n\n',
  `GET / HTTP/1.1\r\nHost: HOST\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`,
  `GET / HTTP/1.1\r\nHost: HOST\r\n${'X-Many: 1\r\n'.repeat(2_500)}\r\n`,
  `GET /${'a'.repeat(30_000)} HTTP/1.1\r\nHost: HOST\r\n\r\n`,
  'POST /api/trpc/session.get HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}',
  '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001',
  '\r\n\r\n\r\n',
  '\u0000',
]

function rawCalls({ authorizations }: Target): fc.Arbitrary<Call> {
  const authorization = authorizations.find((one) => one !== null)
  return fc.tuple(fc.constantFrom(...RAW_REQUESTS), fc.boolean()).map(([text, signedIn]): Call => {
    const header =
      signedIn && authorization ? `\r\nAuthorization: ${authorization}\r\n\r\n` : '\r\n\r\n'
    const raw = Buffer.from(text.replace('\r\n\r\n', header), 'latin1')
    const method = text.slice(0, text.indexOf(' ')).slice(0, 10)
    return { surface: 'raw requests', method, path: '', headers: {}, body: null, raw, lasts: false }
  })
}

const encode = (text: string) => encodeURIComponent(text.toWellFormed())

/** Removes the marker of a raw text. The marker has a meaning only in JSON bodies, not in URLs and headers. */
function headerless(text: string): string {
  return text.startsWith('@raw:') ? text.slice(5) : text
}
