import type { IncomingMessage, ServerResponse } from 'node:http'
import { createHTTPHandler } from '@trpc/server/adapters/standalone'
import { whileKeyHolds } from '../admin/key-end.ts'
import type { KeyHolder } from '../admin/key-holder.ts'
import type { Modules, RequestContext } from '../api/context.ts'
import { appRouter } from '../api/root.ts'
import { SURFACES } from '../api/surfaces.ts'
import { translateError } from '../api/trpc.ts'
import { failuresFor } from '../api/upstream-text.ts'
import { parseJsonText, utf8 } from '../batches/accept/body-splitter.ts'
import type { IngestKind } from '../batches/accept/ingest.ts'
import type { IngestClient } from '../batches/accept/ingest-client.ts'
import { describeIssues } from '../contract/describe-issues.ts'
import type { SessionDto } from '../contract/pages.ts'
import { ScoreInput } from '../contract/trainer.ts'
import { isRewardOpsError, RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import type { Access } from './access.ts'
import { MAX_BODY_BYTES, MAX_INLINE_BYTES, MAX_PLAIN_BYTES, unpacked } from './body.ts'
import { packAnswer } from './packed-answer.ts'
import { callerGone, isCallerGone, refuse } from './refuse.ts'

const BASE_PATH = '/api/trpc/'

const INGESTED: Readonly<Record<string, IngestKind>> = {
  'batches.submit': 'submit',
  'batches.append': 'append',
}

/**
 * The procedure that trainers call once per sample. This file answers it without tRPC, because tRPC costs half a
 * millisecond per call.
 */
const SINGLE = 'samples.score'

export interface TrpcPlaneOptions {
  modules: Modules
  ingest: IngestClient
  access: Access
  version: string
  log: Logger
}

/** Never aborts: anonymous callers have no key that could expire or be revoked. */
const NEVER_ENDS = new AbortController().signal

/**
 * A request with values for its context. `caller` is determined before tRPC runs, because tRPC would report errors of
 * this step as internal.
 */
type Annotated = IncomingMessage & {
  requestId: string
  caller: KeyHolder | null
  answer: ServerResponse
  body?: string
}

export function createTrpcPlane(options: TrpcPlaneOptions) {
  const { modules, ingest, access, log, version } = options

  const sessionOf = (req: IncomingMessage, holder: KeyHolder | null): SessionDto => ({
    auth: access.requiresKey ? 'key' : 'open',
    signedIn: holder !== null,
    name: holder?.name ?? null,
    role: holder?.role ?? null,
    hasKey: holder?.hasKey ?? false,
    isReadOnly: holder?.scope?.access === 'read',
    version,
    address: access.addressOf(req),
  })

  const handler = createHTTPHandler({
    router: appRouter,
    basePath: BASE_PATH,
    allowMethodOverride: true,
    maxBodySize: MAX_PLAIN_BYTES * 4,
    createContext({ req, res }): RequestContext {
      const { caller: holder } = req as Annotated
      return {
        ...modules,
        requestId: (req as Annotated).requestId,
        session: sessionOf(req, holder),
        actor: holder,
        keyEnded: holder?.ended ?? NEVER_ENDS,
        async signIn(key) {
          const cookie = await access.signIn(req, key)
          if (cookie !== null) res.setHeader('set-cookie', cookie)
          return cookie !== null
        },
        async signOut() {
          res.setHeader('set-cookie', await access.signOut(req))
        },
      }
    },
    responseMeta({ errors, type }) {
      const refused = errors.map((e) => e.cause).find(isRewardOpsError)
      return {
        headers: {
          ...(type === 'subscription' ? { 'cache-control': 'no-store, no-transform' } : {}),
          ...(refused?.retryAfterMs === undefined
            ? {}
            : { 'retry-after': String(Math.max(1, Math.ceil(refused.retryAfterMs / 1_000))) }),
        },
      }
    },
    onError({ error, path, ctx, req }) {
      if (isRewardOpsError(error.cause) || error.code !== 'INTERNAL_SERVER_ERROR') return
      const cause = error.cause ?? error
      if (isCallerGone((req as Annotated).answer, cause)) return
      log.error(
        { requestId: ctx?.requestId, path, err: cause.stack ?? cause.message },
        'request failed',
      )
    },
  })

  return async function onTrpc(
    req: IncomingMessage,
    res: ServerResponse,
    requestId: string,
  ): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://localhost')
    const procedure = url.pathname.slice(BASE_PATH.length)
    const annotated = req as Annotated
    annotated.requestId = requestId
    annotated.answer = res
    if (req.method !== 'POST') {
      const input = url.searchParams.get('input')
      if (input) parseJsonText(input, 'the input')
      // Only pages request compression. Trainers are close to the service, where compression costs more than it saves.
      if (req.headers['trpc-accept'] === 'application/jsonl') packAnswer(req, res)
      annotated.caller = access.actorOf(req)
      handler(req, res)
      return
    }
    let chunks: AsyncGenerator<Buffer> | undefined
    try {
      const kind = url.searchParams.has('batch') ? undefined : INGESTED[procedure]
      checkContentType(req)
      chunks = unpacked(req, kind ? MAX_BODY_BYTES : MAX_PLAIN_BYTES)
      const begun: Buffer[] = []
      let size = 0
      let large = false
      if (kind && Number(req.headers['content-length'] ?? 0) > MAX_INLINE_BYTES) large = true
      while (!large) {
        const next = await chunks.next()
        if (next.done) break
        begun.push(next.value)
        size += next.value.length
        large = kind !== undefined && size > MAX_INLINE_BYTES
      }
      if (kind && large) {
        const { ended, name, scope } = access.admit(req, `batches.${kind}`)
        answer(res, await ingest.take(kind, chain(begun, chunks, ended), { name, scope }))
        return
      }
      const text = utf8(Buffer.concat(begun), 'the body')
      // tRPC parses the text again, which takes 4 ms for 1 MiB. Parsing here gives better error messages.
      const input = text === '' ? undefined : parseJsonText(text, 'the body')
      if (procedure === SINGLE && !url.searchParams.has('batch')) {
        const holder = access.admit(req, SINGLE)
        if (holder.scope !== null)
          await modules.scopes.check(holder, SINGLE, SURFACES[SINGLE], input)
        const score = (until: AbortSignal) => modules.manager.score(scoreInput(input), until)
        const scored = await whileKeyHolds(holder.ended, callerGone(res), score)
        answer(res, failuresFor(holder, scored))
        return
      }
      // Procedures without input accept an empty body; the others report their missing fields.
      annotated.body = text === '' ? '{}' : text
      annotated.caller = access.actorOf(req)
      handler(req, res)
    } catch (error) {
      const translated = translateError(error, modules.readiness)
      if (isCallerGone(res, error)) return
      if (!isRewardOpsError(translated)) {
        // Node also destroys a request whose body has been read. Only an incomplete request shows that the caller
        // disconnected.
        if (!req.complete) {
          res.destroy()
          return
        }
        log.error({ requestId, path: procedure, err: (error as Error).stack }, 'request failed')
      }
      // The read is ended explicitly, because `refuse` could not discard the rest of the body while a read is open.
      await chunks?.return(undefined)
      refuse(res, translated, requestId, procedure)
    }
  }
}

function answer(res: ServerResponse, data: unknown): void {
  const body = JSON.stringify({ result: { data } })
  res.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  res.end(body)
}

function scoreInput(input: unknown): ScoreInput {
  const parsed = ScoreInput.safeParse(input)
  if (!parsed.success) throw new RewardOpsError('invalid_input', describeIssues(parsed.error))
  return parsed.data
}

function checkContentType(req: IncomingMessage): void {
  const type = req.headers['content-type'] ?? ''
  if (!/^application\/json\b/i.test(type)) {
    throw new RewardOpsError(
      'unsupported_encoding',
      `Content-Type is "${type.slice(0, 80)}", not application/json.`,
      {
        hint: 'Send JSON with the header Content-Type: application/json.',
      },
    )
  }
}

/**
 * Joins the chunks read so far with the rest of a body. The body is refused if the key becomes invalid in the meantime.
 */
async function* chain(
  begun: Buffer[],
  rest: AsyncGenerator<Buffer>,
  keyEnded: AbortSignal,
): AsyncGenerator<Buffer> {
  yield* begun
  for await (const chunk of rest) {
    keyEnded.throwIfAborted()
    yield chunk
  }
}
