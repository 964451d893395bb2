import { z } from 'zod'
import type { ChatMessage } from '../../contract/trainer.ts'
import { toolResultText, turnText } from '../../contract/turn-text.ts'
import { RewardOpsError } from '../../errors.ts'

const Part = z.looseObject({ type: z.string().optional(), text: z.string().nullish() })
const Parts = z.union([z.string(), z.array(Part)])

/** An input or output item of OpenAI's Responses API. */
export const ResponseItem = z.looseObject({
  type: z.string().optional(),
  role: z.string().optional(),
  content: Parts.nullish(),
  /** For a `function_call`. */
  name: z.string().nullish(),
  arguments: z.string().nullish(),
  call_id: z.string().nullish(),
  /** For a `function_call_output`. */
  output: Parts.nullish(),
  /** For a `reasoning` item. */
  summary: z.array(Part).nullish(),
})
export type ResponseItem = z.infer<typeof ResponseItem>

type Message = z.infer<typeof ChatMessage>

/** Converts items to chat messages. @throws RewardOpsError `invalid_input` for items that are not text, such as images */
export function messagesOf(items: readonly ResponseItem[], path: string): Message[] {
  return items.flatMap((item, i): Message[] => {
    const at = `${path}[${i}]`
    const { type = 'message' } = item
    if (type === 'function_call') {
      const { name, arguments: args, call_id: id } = item
      const call = { ...(id ? { id } : {}), type: 'function', function: { name, arguments: args } }
      return [{ role: 'assistant', content: null, tool_calls: [call] }]
    }
    if (type === 'function_call_output') {
      const id = item.call_id ? { tool_call_id: item.call_id } : {}
      return [{ role: 'tool', content: textOf(item.output, `${at}.output`), ...id }]
    }
    if (type === 'reasoning') {
      const parts = [item.summary, item.content].map((part) => textOf(part, at))
      const text = parts.filter((part) => part !== '').join('\n')
      return text === '' ? [] : [{ role: 'assistant', content: null, reasoning_content: text }]
    }
    if (type === 'message' && item.role !== undefined) {
      return [{ role: item.role, content: textOf(item.content, `${at}.content`) }]
    }
    throw new RewardOpsError(
      'invalid_input',
      `${at} is of type "${type.slice(0, 60)}", which cannot be written as text.`,
    )
  })
}

/** The output of the model and its tools as one text. @throws RewardOpsError `invalid_input` */
export function responseText(items: readonly ResponseItem[], path: string): string {
  return messagesOf(items, path)
    .map((message) => {
      const text = turnText(message)
      if (message.role === 'assistant') return text
      const id = typeof message.tool_call_id === 'string' ? message.tool_call_id : null
      return message.role === 'tool'
        ? toolResultText(text, null, id)
        : `<turn role=${JSON.stringify(message.role)}>\n${text}\n</turn>`
    })
    .join('\n')
}

function textOf(content: z.infer<typeof Parts> | null | undefined, path: string): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .map((part, i) => {
      if (typeof part.text === 'string') return part.text
      throw new RewardOpsError(
        'invalid_input',
        `${path}[${i}] is a part of type "${(part.type ?? 'unknown').slice(0, 60)}", which cannot be written as text.`,
      )
    })
    .join('')
}
