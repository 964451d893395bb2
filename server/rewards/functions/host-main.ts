import { AsyncLocalStorage } from 'node:async_hooks'
import { writeSync } from 'node:fs'
import { connect, createServer, Socket } from 'node:net'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { pathToFileURL } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import type { scoreByRule } from '../scoring/by-rule.ts'
import { endGroup } from './end-group.ts'
import { findTarget, MANAGER_METHODS, methodOf, methodsOf, SCORE_METHODS } from './find-target.ts'
import type { FunctionContext, FunctionInput } from './function-context.ts'
import { postProcesses } from './group-calls.ts'
import { contextOf, groupInputOf, inputOf, RouterCallError, sampleOf } from './host-call.ts'
import { encodeLimitedFrame, FrameReader } from './host-frames.ts'
import {
  type CallEnd,
  CHANNEL_FD,
  type FromHost,
  type FunctionTarget,
  type LogLevel,
  MARKS_FD,
  MAX_LOG_LINES_PER_SECOND,
  packValue,
  ROUTER_SOCKET,
  type RouterAnswer,
  type RouterQuestion,
  SHARED,
  SHARED_FOLDER,
  type ToHost,
} from './protocol.ts'
import { findingKey, readGroupResults, readResult } from './read-result.ts'

/**
 * The child process that runs user code. It starts every call as soon as it arrives: thousands of calls that return
 * promises run concurrently; a CPU-bound call blocks only this process.
 */

interface Loaded {
  dir: string
  score: (input: FunctionInput, context: FunctionContext) => unknown
  /**
   * The object whose methods can be called besides `score`. For a function: the module's exports that post-process
   * groups.
   */
  self: object
}

interface RunningCall {
  abort: AbortController
  isEnded: boolean
}

const STATS_MS = 250
/** Maximum length of a stored failure detail and of a log line, in characters. */
const MAX_TEXT_CHARS = 4_000
const MAX_FIELDS_CHARS = 32_000
const LOADED_FIRST = 'the function was called before it was loaded'

const shared = new Int32Array(new SharedArrayBuffer(4 * SHARED.length))
/** The call whose code is running, also after an `await` and in its timers and callbacks. */
const current = new AsyncLocalStorage<number>()
const targets = new Map<string, Promise<Loaded>>()
const calls = new Map<number, RunningCall>()
const questions = new Map<number, (answer: RouterAnswer) => void>()
let questionNumber = 0
/** Loaded on first use, because loading the rules takes about 65 ms. */
let ruleScorer: typeof scoreByRule | undefined
let spent = false
/** The folder of the last target, used to recognize stack lines of user code. */
let lastDir: string | null = null

Object.defineProperty(globalThis, Symbol.for('rewardops.call'), {
  value: () => current.getStore() ?? 0,
})

const channel = new Socket({ fd: CHANNEL_FD, readable: true, writable: true })

if (process.argv[4]) forwardRouter(Number(process.argv[4]))
startWatchdog()
const loop = performance.eventLoopUtilization
let before = loop()
setInterval(() => {
  const now = loop()
  if (calls.size > 0) send({ type: 'load-average', busy: loop(now, before).utilization })
  before = now
}, STATS_MS).unref()

/** Starts the watchdog thread. The memory limit, `argv[2]`, is in bytes beyond the memory that is used at the start. */
function startWatchdog(): void {
  const { port1, port2 } = new MessageChannel()
  port1.on('message', (ping: number) => Atomics.store(shared, SHARED.pong, ping))
  port1.unref()
  new Worker(new URL('./host-watchdog.ts', import.meta.url), {
    workerData: { shared, port: port2, memoryBytes: Number(process.argv[2]) },
    transferList: [port2],
    argv: process.argv.slice(2),
  }).unref()
}

/**
 * Makes the router address reachable in a sandbox: connections to its port on the sandbox's own loopback interface are
 * passed on to the worker's socket.
 */
function forwardRouter(port: number): void {
  const forwarder = createServer({ allowHalfOpen: true }, (inside) => {
    const outside = connect({ path: join(SHARED_FOLDER, ROUTER_SOCKET), allowHalfOpen: true })
    inside.on('error', () => outside.destroy())
    outside.on('error', () => inside.destroy())
    inside.pipe(outside).pipe(inside)
  })
  forwarder.listen(port, '127.0.0.1').unref()
}

/** @throws Error for a message that cannot be encoded */
function send(message: FromHost): void {
  channel.write(encodeLimitedFrame(message))
}

/** Writes a line for the worker synchronously, so that it arrives even if this process ends immediately afterwards. */
function mark(line: string): void {
  try {
    writeSync(MARKS_FD, `${line}\n`)
  } catch {
    endGroup()
  }
}

const frames = new FrameReader(
  Number.POSITIVE_INFINITY,
  (body) => onMessage(JSON.parse(body.toString('utf8')) as ToHost),
  endGroup,
)
channel.on('data', (chunk: Buffer) => frames.push(chunk))
// Both events mean that the worker has ended.
channel.on('error', endGroup)
channel.on('close', endGroup)

function onMessage(message: ToHost): void {
  switch (message.type) {
    case 'load':
      targets.set(message.target.key, load(message.target))
      targets.get(message.target.key)?.then(
        () => send({ type: 'loaded', key: message.target.key, error: null }),
        (error: unknown) => {
          const why = locatedMessage(error, message.target.dir)
          send({ type: 'loaded', key: message.target.key, error: why })
        },
      )
      break
    case 'inspect':
      void inspect(message.target)
      break
    case 'call':
      void call(message)
      break
    case 'abort':
      calls.get(message.id)?.abort.abort(new Error(message.why))
      break
    case 'answer':
      questions.get(message.request)?.(message.answer)
      questions.delete(message.request)
      break
  }
}

/** If user code ends the process, the call whose code is running is the culprit. */
process.on('exit', (code) => mark(`X ${code} ${current.getStore() ?? 0}`))
const abort = process.abort.bind(process)
process.abort = () => {
  mark(`X 134 ${current.getStore() ?? 0}`)
  return abort()
}

process.on('uncaughtException', (error: unknown, origin) => {
  const id = current.getStore() ?? 0
  const why = locatedMessage(error, null)
  const call = calls.get(id)
  if (call && !call.isEnded) {
    end(id, {
      sync: false,
      busyMs: 0,
      end: { ok: false, reason: 'function_error', detail: `uncaught: ${why}` },
    })
  }
  // After an unhandled rejection the process continues, because no running code was interrupted.
  if (spent || origin === 'unhandledRejection') {
    console.error(`uncaught: ${why}`)
    return
  }
  spent = true
  send({ type: 'spent', why: `uncaught: ${why}` })
})

async function importModule({ dir, path }: FunctionTarget): Promise<Record<string, unknown>> {
  lastDir = dir
  return (await import(pathToFileURL(join(dir, path)).href)) as Record<string, unknown>
}

async function inspect(target: FunctionTarget): Promise<void> {
  const methods = target.role === 'manager' ? MANAGER_METHODS : SCORE_METHODS
  const result = await importModule(target).then(
    (module) => {
      const found = findTarget(module, target.name, methods)
      if ('message' in found) return { ok: false as const, ...found }
      const { form, value } = found
      const self = form === 'class' ? (value as { prototype: object }).prototype : (value as object)
      if (form !== 'function' && methodOf(self, methods) === null) {
        const message = `it has none of the methods ${methods.join(', ')}`
        return { ok: false as const, message, exports: [] }
      }
      const among = form === 'function' ? beside(module) : self
      return { ok: true as const, form, methods: methodsOf(among) }
    },
    (error: unknown) => ({
      ok: false as const,
      message: locatedMessage(error, target.dir),
      exports: [],
    }),
  )
  send({ type: 'inspected', result })
}

/** The exports of a function's module that post-process groups. */
function beside(module: Record<string, unknown>): object {
  const inner = typeof module.default === 'object' ? module.default : null
  const all = Object.entries({ ...inner, ...module })
  return Object.fromEntries(
    all.filter(([name, value]) => postProcesses([name]) && typeof value === 'function'),
  )
}

async function load(target: FunctionTarget): Promise<Loaded> {
  const isManager = target.role === 'manager'
  const methods = isManager ? MANAGER_METHODS : SCORE_METHODS
  const module = await importModule(target)
  const found = findTarget(module, target.name, methods)
  if ('message' in found) throw new Error(found.message)
  const { form, value } = found
  const { dir } = target
  if (form === 'function' && !isManager) {
    return { dir, score: value as Loaded['score'], self: beside(module) }
  }
  const options = isManager
    ? { kwargs: target.kwargs, computeScore: await wrappedBy(target) }
    : target.kwargs
  const self = (
    form === 'class'
      ? new (value as new (options: object) => object)(options)
      : form === 'function'
        ? // The function creates the manager.
          await (value as (options: object) => unknown)(options)
        : value
  ) as Record<string, (...args: unknown[]) => unknown>
  const method = methodOf(self, methods)
  if (method === null) throw new Error(`it has none of the methods ${methods.join(', ')}`)
  await self.init?.(options)
  return { dir, score: (...args) => self[method]?.(...args), self }
}

async function wrappedBy(
  target: FunctionTarget,
): Promise<(input: FunctionInput, context?: FunctionContext) => Promise<unknown>> {
  const { wraps } = target
  if (wraps) {
    const inner = await load(wraps)
    // The manager receives the result as `{score, …extra}`, the form that rules and models return.
    return async (input, context) => {
      const given = await inner.score({ ...input, ...wraps.kwargs }, context as FunctionContext)
      const read = readResult(given)
      if (!read.ok) throw new RouterCallError(read.reason, `${wraps.path}: ${read.detail}`)
      return { ...read.extra, ...findingKey(read), score: read.score }
    }
  }
  return async (input) => {
    const answer = await ask({ op: 'wrapped', sample: sampleOf(input) })
    if (!answer.ok) throw new RouterCallError(answer.reason, answer.detail)
    if (!('score' in answer)) throw new Error('the worker returned no score')
    return { ...answer.extra, ...findingKey(answer), score: answer.score }
  }
}

async function call(message: Extract<ToHost, { type: 'call' }>): Promise<void> {
  const { id, work } = message
  const running: RunningCall = { abort: new AbortController(), isEnded: false }
  calls.set(id, running)
  let loaded: Loaded | null = null
  let startedAt = performance.now()
  let sync = true
  let busyMs = 0
  const stopped = () => {
    busyMs = performance.now() - startedAt
    Atomics.store(shared, SHARED.running, 0)
  }
  try {
    if (message.target !== null) {
      const loading = targets.get(message.target)
      if (loading === undefined) throw new Error(LOADED_FIRST)
      loaded = await loading
    }
    if (work.op === 'rule') ruleScorer ??= (await import('../scoring/by-rule.ts')).scoreByRule
    mark(`S ${id}`)
    Atomics.store(shared, SHARED.running, id)
    startedAt = performance.now()
    let value: unknown
    try {
      value = current.run(id, () => run(loaded, message, running))
    } finally {
      stopped()
    }
    if (isThenable(value)) {
      sync = false
      mark(`R ${id}`)
      value = await value
    }
    const thrown = new Map<number, string>()
    // A function may return a list of promises (`solution_strs.map(async …)`). If one is rejected, only its member
    // fails.
    if (work.op === 'group' && Array.isArray(value) && value.some(isThenable)) {
      if (sync) mark(`R ${id}`)
      sync = false
      value = (await Promise.allSettled(value)).map((entry, at) => {
        if (entry.status === 'fulfilled') return entry.value
        thrown.set(at, locatedMessage(entry.reason, loaded?.dir ?? null))
        return null
      })
    }
    if (work.op === 'method') end(id, { sync, busyMs, end: { ok: true, value: packValue(value) } })
    else if (work.op === 'group') {
      end(id, { sync, busyMs, end: readGroupResults(value, work.samples.length, thrown) })
    } else if (work.op === 'rule') end(id, { sync, busyMs, end: value as CallEnd['end'] })
    else end(id, { sync, busyMs, end: readResult(value) })
  } catch (error) {
    const reason = error instanceof RouterCallError ? error.reason : 'function_error'
    const detail = locatedMessage(error, loaded?.dir ?? null)
    end(id, { sync, busyMs, end: { ok: false, reason, detail } })
  }
}

function run(
  loaded: Loaded | null,
  { id, work, about }: Extract<ToHost, { type: 'call' }>,
  running: RunningCall,
): unknown {
  if (work.op === 'rule') {
    if (ruleScorer === undefined) throw new Error(LOADED_FIRST)
    const outcome = ruleScorer(work.sample, work.reward)
    if (!outcome.ok) return { ok: false, reason: outcome.reason, detail: outcome.detail }
    const { score, extra, verdict } = outcome
    return { ok: true, score, extra, ...(verdict && { verdict }) }
  }
  if (loaded === null) throw new Error(LOADED_FIRST)
  const context = contextOf(about, running.abort.signal, {
    ask,
    log: (level, message, fields) => log(id, level, String(message), fields),
  })
  if (work.op === 'score') return loaded.score(inputOf(work.sample, work.kwargs), context)
  if (work.op === 'group') {
    return loaded.score(groupInputOf(work.samples, work.kwargs) as FunctionInput, context)
  }
  if (work.names.length === 0) {
    return (loaded.score as (...args: unknown[]) => unknown)(...work.args, context)
  }
  const method = methodOf(loaded.self, work.names)
  if (method === null) throw new Error(`it has none of the methods ${work.names.join(', ')}`)
  return (loaded.self as Record<string, (...args: unknown[]) => unknown>)[method]?.(
    ...work.args,
    context,
  )
}

function end(id: number, ended: Omit<CallEnd, 'type' | 'id'>): void {
  const running = calls.get(id)
  if (running === undefined || running.isEnded) return
  running.isEnded = true
  calls.delete(id)
  try {
    send({ type: 'end', id, ...ended })
  } catch (error) {
    const detail = `its result cannot be encoded: ${(error as Error).message}`
    send({ type: 'end', id, ...ended, end: { ok: false, reason: 'function_error', detail } })
  }
}

async function ask(question: RouterQuestion): Promise<RouterAnswer> {
  const request = ++questionNumber
  send({ type: 'ask', call: current.getStore() ?? 0, request, question })
  return new Promise<RouterAnswer>((resolve) => questions.set(request, resolve))
}

const logSecond = { atMs: 0, lines: 0, leftOut: 0 }

function log(call: number, level: LogLevel, text: string, fields: object | undefined): void {
  const now = performance.now()
  if (now - logSecond.atMs > 1_000) Object.assign(logSecond, { atMs: now, lines: 0 })
  if (++logSecond.lines > MAX_LOG_LINES_PER_SECOND) {
    logSecond.leftOut++
    return
  }
  const { leftOut } = logSecond
  logSecond.leftOut = 0
  const message = text.slice(0, MAX_TEXT_CHARS)
  try {
    send({ type: 'log', call, level, message, fields: plain(fields), leftOut })
  } catch (error) {
    const why = { fieldsLeftOut: (error as Error).message }
    send({ type: 'log', call, level, message, fields: why, leftOut })
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { then?: unknown }).then === 'function'
  )
}

function plain(fields: object | undefined): object | null {
  if (fields === undefined) return null
  try {
    const text = JSON.stringify(fields)
    if (text.length > MAX_FIELDS_CHARS) return { fieldsLeftOut: `${text.length} characters` }
    const value = JSON.parse(text) as object | null
    return Array.isArray(value) ? { fields: value } : value
  } catch {
    return null
  }
}

function locatedMessage(error: unknown, dir: string | null): string {
  return fullMessage(error, dir).slice(0, MAX_TEXT_CHARS)
}

function fullMessage(error: unknown, dir: string | null): string {
  if (!(error instanceof Error)) {
    const fields = typeof error === 'object' && error !== null ? plain(error) : null
    return `it threw ${fields === null ? String(error) : JSON.stringify(fields).slice(0, 500)}`
  }
  const message = error.message === '' ? error.name : error.message
  const base = dir ?? lastDir
  if (base === null || typeof error.stack !== 'string') return message
  const from = pathToFileURL(base).href
  for (const line of error.stack.split('\n')) {
    const at = line.indexOf(`${from}/`)
    if (at < 0) continue
    const place = line.slice(at + from.length + 1).replace(/\)$/, '')
    return `${message} (${place})`
  }
  return message
}
