import { mediaIn, turnText } from '../contract/turn-text.ts'
import type { EngineTarget, ScoreInput } from './engine.ts'

export interface ChatMessage {
  role: string
  content: string
}

/**
 * Replaces lone surrogates with U+FFFD. Servers answer 500 to them, because Python cannot encode them, and one such
 * text would count as a fault of the server. Stored texts keep the surrogates.
 */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed()
}

/**
 * Throws an Error if a message has an image or another part that is not text, because a score of the other parts would
 * not be the score of this sample.
 */
function refuseMedia({ prompt, messages = [] }: ScoreInput): void {
  if (typeof prompt === 'string' && messages.length === 0) return
  const turns = typeof prompt === 'string' ? messages : [...prompt, ...messages]
  const part = mediaIn(turns)
  if (part !== null)
    throw new Error(`a message has a part of type ${part}, and this engine gets text only`)
}

/**
 * Returns the sample as a conversation: a text prompt is the user's turn, and the response the assistant's. Tool calls
 * become part of the content, because templates without tools silently omit them.
 */
export function sampleMessages(input: ScoreInput): ChatMessage[] {
  refuseMedia(input)
  const { prompt } = input
  const answer = { role: 'assistant', content: wellFormed(input.response) }
  if (typeof prompt === 'string') return [{ role: 'user', content: wellFormed(prompt) }, answer]
  const messages: ChatMessage[] = []
  for (const turn of prompt) messages.push({ role: turn.role, content: wellFormed(turnText(turn)) })
  messages.push(answer)
  return messages
}

export function promptText(input: ScoreInput): string {
  refuseMedia(input)
  const { prompt } = input
  if (typeof prompt === 'string') return wellFormed(prompt)
  return wellFormed(prompt.map(turnText).join('\n'))
}

/**
 * Returns the sample as one text, rendered by the registered chat template without the BOS that the server's tokenizer
 * adds. Without a template, the text is the prompt, a newline and the response.
 * @throws ChatTemplateError
 */
export function sampleText(input: ScoreInput, target: EngineTarget): string {
  if (target.chatTemplate != null) return target.chatTemplate.renderSampleWithoutBos(input)
  return `${promptText(input)}\n${wellFormed(input.response)}`
}
