import { hash } from 'node:crypto'
import { mediaIn, type SentTurn } from '../contract/turn-text.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from './database.ts'
import { imagesByHash } from './sql/images.ts'
import {
  type EncodedTexts,
  type GivenTexts,
  PROMPT_IS_MESSAGES,
  RESPONSE_IS_MESSAGES,
} from './stored-texts.ts'

/**
 * Images of chat messages are stored once, by their SHA-256. In the stored JSON of the messages, a reference (`\/` and
 * the hash) replaces the base64: `"data:image/png;base64,\/9f86…"`. `JSON.stringify` never writes `\/`, so no text that
 * was sent looks like a reference, and putting the base64 back restores every byte.
 */

/** Bits of `encoding`, in addition to those in `stored-texts.ts`: the text refers to images. */
const PROMPT_HAS_IMAGES = 16
export const RESPONSE_HAS_IMAGES = 32

const DATA_URL = '"data:image/'
const BASE64 = ';base64,'
/** The longest media type, with its parameters, in characters. */
const MAX_TYPE_CHARS = 100
/** Shorter images stay in their messages, because a row of their own would take more space. */
const MIN_STORED_CHARS = 512
const REFERENCE = /;base64,\\\/([0-9a-f]{64})"/g

export interface ImagePolicy {
  maxBytes: number
  /**
   * False if images must stay in their messages, because a running process of an earlier version cannot read
   * references.
   */
  isApart: boolean
}

type Texts = Pick<EncodedTexts, 'prompt' | 'response' | 'encoding'>

/** The texts of a row of `sample_text` that may refer to images; null if they were not read. */
interface StoredTexts {
  prompt: string | null
  response: string | null
  encoding: number | null
}

export class ImageCollector {
  /** Bytes by SHA-256 in hexadecimal; null once handed over to the caller. */
  readonly images = new Map<string, Buffer | null>()
  #byteLength = 0
  readonly #policy: ImagePolicy

  constructor(policy: ImagePolicy) {
    this.#policy = policy
  }

  /**
   * Returns the texts of a sample with references in place of its images, or the same object if the sample has no
   * images. Only parts of messages that are not text are searched, so every text that a reward reads stays unchanged.
   * Small images, and images whose base64 could not be restored byte for byte, stay in their messages. Throws
   * `image_too_large`, whose message begins with `where`.
   */
  take<T extends Texts>(
    texts: T,
    given: Pick<GivenTexts, 'prompt' | 'response'>,
    where: string,
  ): T {
    const prompt = this.#takeFrom(given.prompt, texts.prompt, where)
    const response = this.#takeFrom(given.response, texts.response, where)
    if (prompt === texts.prompt && response === texts.response) return texts
    const encoding =
      texts.encoding |
      (prompt === texts.prompt ? 0 : PROMPT_HAS_IMAGES) |
      (response === texts.response ? 0 : RESPONSE_HAS_IMAGES)
    return { ...texts, prompt, response, encoding }
  }

  /** Like {@link take}, for stored texts, which may already have references in place of images. */
  takeStored<T extends Texts>(texts: T): T {
    if (hasImages(texts)) return texts
    const given = (text: string, isMessages: number) =>
      isMessages === 0 ? text : (JSON.parse(text) as SentTurn[])
    const prompt = given(texts.prompt, texts.encoding & PROMPT_IS_MESSAGES)
    const response = given(texts.response, texts.encoding & RESPONSE_IS_MESSAGES)
    return this.take(texts, { prompt, response }, 'a stored sample')
  }

  /**
   * Returns messages as JSON with references in place of images. `json`: the messages as `JSON.stringify` writes them.
   */
  #takeFrom(messages: string | SentTurn[], json: string, where: string): string {
    if (typeof messages === 'string' || mediaIn(messages) === null) return json
    if (!json.includes(DATA_URL)) return json
    return `[${messages.map((message) => this.#messageJson(message, where)).join(',')}]`
  }

  #messageJson(message: SentTurn, where: string): string {
    const { content } = message
    if (!Array.isArray(content)) return JSON.stringify(message)
    const parts = content.map((part) => {
      const json = JSON.stringify(part)
      return typeof part.text === 'string' ? json : this.#takeFromPart(json, where)
    })
    const fields = Object.entries(message).flatMap(([name, value]) => {
      const json = name === 'content' ? `[${parts.join(',')}]` : JSON.stringify(value)
      return json === undefined ? [] : [`${JSON.stringify(name)}:${json}`]
    })
    return `{${fields.join(',')}}`
  }

  #takeFromPart(json: string, where: string): string {
    let from = json.indexOf(DATA_URL)
    let taken = ''
    let done = 0
    while (from !== -1) {
      const end = json.indexOf('"', from + 1)
      const comma = json.slice(from, Math.min(end, from + MAX_TYPE_CHARS)).indexOf(BASE64)
      if (comma !== -1) {
        const start = from + comma + BASE64.length
        const sha256 = this.#keep(json.slice(start, end), where)
        if (sha256 !== null) {
          taken += `${json.slice(done, start)}\\/${sha256}`
          done = end
        }
      }
      from = json.indexOf(DATA_URL, end)
    }
    return taken + json.slice(done)
  }

  #keep(base64: string, where: string): string | null {
    const { maxBytes, isApart } = this.#policy
    if (base64.length * 0.75 > maxBytes + 2) {
      const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(1)
      throw new RewardOpsError(
        'image_too_large',
        `${where}: an image has ${megabytes(base64.length * 0.75)} MiB; the limit is ${megabytes(maxBytes)} MiB.`,
      )
    }
    if (!isApart || base64.length < MIN_STORED_CHARS) return null
    const bytes = Buffer.from(base64, 'base64')
    if (bytes.toString('base64') !== base64) return null
    const sha256 = hash('sha256', bytes, 'hex')
    if (!this.images.has(sha256)) {
      this.images.set(sha256, bytes)
      this.#byteLength += bytes.length
    }
    return sha256
  }

  get byteLength(): number {
    return this.#byteLength
  }

  /** Returns the images in memory and drops them here. */
  handOver(): Map<string, Buffer> {
    const images = new Map<string, Buffer>()
    for (const [sha256, bytes] of this.images) if (bytes !== null) images.set(sha256, bytes)
    for (const sha256 of images.keys()) this.images.set(sha256, null)
    this.#byteLength = 0
    return images
  }
}

/**
 * Puts the images back into the texts of these rows, in place, with at most one query. Throws if an image is missing,
 * unless `mayBeGone`, which is for readers of batches that retention may be removing.
 */
export async function loadImages(
  db: Database,
  rows: readonly StoredTexts[],
  { mayBeGone = false }: { mayBeGone?: boolean } = {},
): Promise<void> {
  const having = rows.filter(hasImages)
  if (having.length === 0) return
  const hashes = new Set<string>()
  for (const { prompt, response } of having) {
    for (const text of [prompt, response]) {
      for (const [, sha256] of (text ?? '').matchAll(REFERENCE)) hashes.add(sha256 as string)
    }
  }
  const images = await imagesByHash(db, [...hashes])
  const base64 = new Map([...images].map(([sha256, bytes]) => [sha256, bytes.toString('base64')]))
  const withImages = (text: string | null) =>
    text?.replace(REFERENCE, (reference, sha256: string) => {
      const image = base64.get(sha256)
      if (image === undefined && !mayBeGone) throw new Error(`the image ${sha256} is missing`)
      return image === undefined ? reference : `${BASE64}${image}"`
    }) ?? null
  for (const row of having) {
    row.prompt = withImages(row.prompt)
    row.response = withImages(row.response)
    row.encoding = (row.encoding as number) & ~(PROMPT_HAS_IMAGES | RESPONSE_HAS_IMAGES)
  }
}

function hasImages({ encoding }: Pick<StoredTexts, 'encoding'>): boolean {
  return ((encoding ?? 0) & (PROMPT_HAS_IMAGES | RESPONSE_HAS_IMAGES)) !== 0
}
