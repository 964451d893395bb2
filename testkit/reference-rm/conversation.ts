/** A prompt and the response to it. */
export interface Conversation {
  prompt: string
  response: string
}

/** Where the assistant's turn begins under the common chat templates. */
const ASSISTANT_TURNS = [
  '<|im_start|>assistant\n',
  '<|start_header_id|>assistant<|end_header_id|>\n\n',
  '<start_of_turn>model\n',
  '<|assistant|>\n',
  '[/INST]',
  '\n\nAssistant:',
]
const TURN_ENDS = /(?:<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<\|end\|>|<\/s>)\s*$/
const TEMPLATE_MARKS = /<\|[^|<>]{1,40}\|>|<(?:start|end)_of_turn>|\[\/?INST\]/g

/**
 * Finds the response in a text: after the last assistant turn of a chat template; without a template after
 * the last blank line or, failing that, the first line end (`prompt`, a newline, `response`, as reward
 * routers join them); else the whole text is the response.
 */
export function splitText(text: string): Conversation {
  let at = -1
  let length = 0
  for (const turn of ASSISTANT_TURNS) {
    const found = text.lastIndexOf(turn)
    if (found > at) {
      at = found
      length = turn.length
    }
  }
  if (at !== -1) {
    return {
      prompt: text.slice(0, at).replace(TEMPLATE_MARKS, ' ').trim(),
      response: text.slice(at + length).replace(TURN_ENDS, ''),
    }
  }
  const lineEnd = text.indexOf('\n')
  return lineEnd === -1
    ? { prompt: '', response: text }
    : { prompt: text.slice(0, lineEnd), response: text.slice(lineEnd + 1) }
}
