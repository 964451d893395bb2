import { turnText } from '../contract/turn-text.ts'
import type { EngineTarget, ScoreInput } from './engine.ts'

/** One turn of a conversation. */
export interface ChatMessage {
  role: string
  content: string
}

/**
 * Lone surrogates become U+FFFD: servers answer 500 to them (Python cannot encode them), and one odd rollout
 * would count as a fault of the server. What is stored keeps them.
 */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed()
}

/**
 * The sample as a conversation: a prompt that is text is the user's turn, the response the assistant's. Tool calls are part
 * of a turn's content, since a template that knows no tools leaves them out in silence.
 */
export function sampleMessages(input: ScoreInput): ChatMessage[] {
  const { prompt } = input
  const answer = { role: 'assistant', content: wellFormed(input.response) }
  if (typeof prompt === 'string') return [{ role: 'user', content: wellFormed(prompt) }, answer]
  const messages: ChatMessage[] = []
  for (const turn of prompt) messages.push({ role: turn.role, content: wellFormed(turnText(turn)) })
  messages.push(answer)
  return messages
}

/** The prompt as one text: a conversation's contents joined by newlines. */
export function promptText(input: ScoreInput): string {
  const { prompt } = input
  if (typeof prompt === 'string') return wellFormed(prompt)
  return wellFormed(prompt.map(turnText).join('\n'))
}

/**
 * The sample as one text: by the model's chat template, without the BOS that the server's tokenizer adds, else prompt, a
 * newline, response. @throws ChatTemplateError
 */
export function sampleText(input: ScoreInput, target: EngineTarget): string {
  if (target.chatTemplate != null) return target.chatTemplate.renderSampleWithoutBos(input)
  return `${promptText(input)}\n${wellFormed(input.response)}`
}
