import { errorMessage, field } from './answer.ts'
import { buildChatRequest, parseChatResponse } from './chat.ts'
import type { EngineFetch, EngineName, EngineReply, EngineTarget } from './engine.ts'
import { failed, type SelfTestResult, untested } from './self-test-verdict.ts'

/** A judge is `ready` only if it answers one short request: it may be asleep or broken. */
const CHAT_QUESTION = 'Answer with the single word Yes.'
const CHAT_TOKENS = 8

/** Tests whether a judge answers a chat completion; the content does not matter. Never rejects. */
export async function chatSelfTest(
  engine: EngineName,
  fetch: EngineFetch,
  target: EngineTarget,
): Promise<SelfTestResult> {
  const chat = { messages: [{ role: 'user', content: CHAT_QUESTION }], maxTokens: CHAT_TOKENS }
  try {
    const { path, body } = buildChatRequest(engine, chat, target)
    const reply = await fetch(path, { method: 'POST', body: String(body) })
    const answer = parseChatResponse(reply.status, reply.headers, reply.bodyText)
    // A model that refuses, or only reasons, can chat.
    if (answer.ok || hasChoice(reply.bodyText)) return untested('A chat completion succeeded.')
    const detail = `The chat completion failed: ${answer.detail}`
    return { ...failed(detail, null), ...(isMissing(reply) ? { routeMissing: true } : {}) }
  } catch (error) {
    return failed(`The chat completion failed: ${(error as Error).message}`, null)
  }
}

function hasChoice(bodyText: string): boolean {
  try {
    const choices = field(JSON.parse(bodyText), 'choices')
    return Array.isArray(choices) && typeof field(choices[0], 'message') === 'object'
  } catch {
    return false
  }
}

/**
 * Whether the server has no chat route for its model, by status, or by vLLM's message, which also comes with 200 and
 * 400.
 */
function isMissing({ status, bodyText }: EngineReply): boolean {
  return (
    [404, 405, 501].includes(status) ||
    /does not support (?:chat|.* api)/i.test(errorMessage(bodyText))
  )
}
