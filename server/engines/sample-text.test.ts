import { expect, it } from 'vitest'
import { ENGINE_NAMES } from '../contract/engines.ts'
import { engineOf } from './registry.ts'

const IMAGE = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
const WITH_IMAGE = {
  prompt: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, IMAGE] }],
  response: 'A cat.',
}

it.each(ENGINE_NAMES.map(engineOf).filter(({ scores, name }) => scores && name !== 'http'))(
  '$name refuses a sample with an image, because it would score the text alone',
  (engine) => {
    const target = { model: 'rm', version: null }
    expect(() => engine.buildScoreRequest(WITH_IMAGE, target)).toThrow('a part of type image_url')
    const inResponse = {
      ...{ prompt: 'Draw a cat.', response: '<image_url>' },
      messages: [{ role: 'assistant', content: [IMAGE] }],
    }
    expect(() => engine.buildScoreRequest(inResponse, target)).toThrow('a part of type image_url')
    const texts = [
      { type: 'text', text: 'What is ' },
      { type: 'text', text: 'this?' },
    ]
    const { body } = engine.buildScoreRequest(
      { ...WITH_IMAGE, prompt: [{ role: 'user', content: texts }] },
      target,
    )
    expect(String(body)).toContain('What is this?')
  },
)

it('a custom scorer gets all parts', () => {
  const { body } = engineOf('http').buildScoreRequest(WITH_IMAGE, { model: 'rm', version: null })
  expect(JSON.parse(String(body)).samples[0].prompt).toEqual(WITH_IMAGE.prompt)
})
