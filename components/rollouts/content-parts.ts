import { IMAGES_PATH, storedImageOf } from '../../server/contract/images.ts'
import { BASE_PATH } from '../url/base-path.ts'

export type ContentPart =
  | { kind: 'text'; text: string }
  /** `source` is a URL from which a page may load the image. Null if the image is not stored or not a raster image. */
  | { kind: 'image'; source: string | null; address: string }
  | { kind: 'other'; value: unknown }

/** Raster images. SVG is excluded, because an SVG is a document that may contain scripts and links. */
const RASTER = /^data:image\/(?:png|jpeg|gif|webp);base64,/
const IMAGE_DATA = new RegExp(`${RASTER.source}[A-Za-z0-9+/=\\s]+$`)
const MAX_IMAGE_CHARS = 8_000_000

/** Reads the content of a message: a text, or OpenAI's list of parts. */
export function contentParts(content: unknown): ContentPart[] {
  if (content === '' || content === null || content === undefined) return []
  if (typeof content === 'string') return [{ kind: 'text', text: content }]
  return (Array.isArray(content) ? content : [content]).map(partOf)
}

function partOf(part: unknown): ContentPart {
  if (typeof part === 'string') return { kind: 'text', text: part }
  if (typeof part !== 'object' || part === null) return { kind: 'other', value: part }
  const { type, text, image_url: nested, url, image } = part as Record<string, unknown>
  if ((type === 'text' || type === 'input_text') && typeof text === 'string') {
    return { kind: 'text', text }
  }
  if (type !== 'image_url' && type !== 'image' && type !== 'input_image') {
    return { kind: 'other', value: part }
  }
  const inner =
    typeof nested === 'object' && nested !== null ? (nested as { url?: unknown }).url : nested
  const address = [inner, url, image].find((each) => typeof each === 'string')
  if (typeof address !== 'string') return { kind: 'other', value: part }
  const stored = storedImageOf(address)
  if (stored !== null) {
    const source = RASTER.test(address) ? BASE_PATH + IMAGES_PATH + stored.sha256 : null
    return { kind: 'image', source, address: `${stored.type}, SHA-256 ${stored.sha256}` }
  }
  const isShown = address.length <= MAX_IMAGE_CHARS && IMAGE_DATA.test(address)
  return { kind: 'image', source: isShown ? address : null, address }
}
