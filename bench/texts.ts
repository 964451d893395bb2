import { drawFrom } from '../examples/generator/random.ts'
import type { SampleInput } from '../server/contract/trainer.ts'

/**
 * Returns a seeded generator of texts made of random words. Unlike random letters, words score and compress like real
 * text.
 */
export function randomTexts(seed: number): (length: number) => string {
  const draw = drawFrom(seed)
  const letters = 'etaoinshrdlucmfwypvbgk'
  const words = Array.from({ length: 4096 }, () => {
    const word = Array.from({ length: draw.integer(2, 9) }, () => letters[draw.integer(0, 21)])
    return word.join('')
  })
  return (length) => {
    let text = ''
    while (text.length < length) text += `${words[(draw.unit() * 4096) | 0]} `
    return text.slice(0, length)
  }
}

export interface SampleShape {
  samples: number
  groupSize: number
  promptLength: number
  responseLength: number
}

/** Usual sizes of verl's rollouts: 800 characters of prompt, 2,200 of response, groups of eight. */
export const USUAL_SHAPE: SampleShape = {
  samples: 8192,
  groupSize: 8,
  promptLength: 800,
  responseLength: 2200,
}

/** Samples for the rule `gsm8k`; the samples of a group share a prompt. The seed determines the texts. */
export function makeSamples(
  shape: SampleShape,
  seed: number,
): (SampleInput & { response: string })[] {
  const text = randomTexts(seed)
  let prompt = ''
  return Array.from({ length: shape.samples }, (_, i) => {
    if (i % shape.groupSize === 0) prompt = text(shape.promptLength)
    const ending = `\n#### ${i % 3 === 0 ? 72 : i}`
    return {
      uid: `q${Math.floor(i / shape.groupSize)}`,
      dataSource: 'openai/gsm8k',
      prompt,
      response: text(shape.responseLength - ending.length) + ending,
      groundTruth: '72',
      responseLength: Math.round(shape.responseLength / 4),
    }
  })
}
