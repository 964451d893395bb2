import { type ChatTemplate, ChatTemplateError, chatTemplateOf } from '../engines/chat-template.ts'
import type { EngineName, SampleTemplate, ScoreRoute } from '../engines/engine.ts'
import { engineOf } from '../engines/registry.ts'

/**
 * Chat templates for those above the router, who do not know the engines: what a registration gives is looked at, and a
 * reward function may write a conversation as its model reads it.
 */
export {
  type ChatTemplate,
  ChatTemplateError,
  chatTemplateOf,
  type RenderOptions,
} from '../engines/chat-template.ts'

/** Whether a server's scores are asked for by texts that a chat template can make. */
export function takesChatTemplate(engine: EngineName, route: ScoreRoute | null): boolean {
  return engineOf(engine).templated && route !== 'pair'
}

/** Reads a template and writes a short sample with it, so that what never works is found at once. @throws ChatTemplateError */
export function tryChatTemplate(text: string): ChatTemplate {
  const template = chatTemplateOf(text)
  const written = template.renderSample({ prompt: 'What is 1 + 1?', response: 'It is 2.' })
  if (!written.includes('What is 1 + 1?') || !written.includes('It is 2.')) {
    throw new ChatTemplateError('it leaves the prompt or the response out')
  }
  return template
}

/** A server's template as it is stored; one that this version cannot read fails every sample with the reason. */
export function storedChatTemplate(text: string | null | undefined): SampleTemplate | null {
  if (text == null) return null
  try {
    return chatTemplateOf(text)
  } catch (error) {
    const refuse = () => {
      throw error
    }
    return { renderSample: refuse, renderSampleWithoutBos: refuse }
  }
}
