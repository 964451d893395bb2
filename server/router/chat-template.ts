import { type ChatTemplate, ChatTemplateError, chatTemplateOf } from '../engines/chat-template.ts'
import type { EngineName, SampleTemplate, ScoreRoute } from '../engines/engine.ts'
import { engineOf } from '../engines/registry.ts'

/**
 * Chat templates for modules that use the router and must not import the engines. Registration checks templates, and
 * reward functions may render conversations with them.
 */
export {
  type ChatTemplate,
  ChatTemplateError,
  chatTemplateOf,
  type RenderOptions,
} from '../engines/chat-template.ts'

/** Whether servers of this engine and route receive each sample as one text, which a chat template can render. */
export function takesChatTemplate(engine: EngineName, route: ScoreRoute | null): boolean {
  return engineOf(engine).templated && route !== 'pair'
}

/**
 * Renders a short sample, to find a broken template early.
 * @throws ChatTemplateError
 */
export function tryChatTemplate(text: string): ChatTemplate {
  const template = chatTemplateOf(text)
  const written = template.renderSample({ prompt: 'What is 1 + 1?', response: 'It is 2.' })
  if (!written.includes('What is 1 + 1?') || !written.includes('It is 2.')) {
    throw new ChatTemplateError('it omits the prompt or the response')
  }
  return template
}

/**
 * Compiles a stored chat template; null if there is none. If it does not compile, every sample fails with the error.
 */
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
