import { translateError } from '../api/trpc.ts'
import { IMAGES_PATH } from '../contract/images.ts'
import { RewardOpsError } from '../errors.ts'
import { imagesByHash } from '../store/sql/images.ts'
import type { ExportSources } from './export.ts'
import type { Handler } from './listener.ts'

/** Raster formats by their first bytes. All other bytes, such as SVG, are sent as a file that no browser renders. */
const FORMATS: readonly [type: string, hex: RegExp][] = [
  ['image/png', /^89504e470d0a1a0a/],
  ['image/jpeg', /^ffd8ff/],
  ['image/gif', /^47494638(?:37|39)61/],
  ['image/webp', /^52494646.{8}57454250/],
]

/**
 * `GET /api/images/<SHA-256>`: an image of messages. Browsers do not store it, because it must not outlive the sign-out.
 * The content type is derived from the bytes, not from the type that a trainer sent.
 */
export function createImages({ db, access, scopes, readiness }: ExportSources): Handler {
  return async (req, res) => {
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.setHeader('allow', 'GET, HEAD')
      throw new RewardOpsError('method_not_allowed', `${IMAGES_PATH} accepts only GET.`)
    }
    const caller = access.admit(req, 'images')
    const sha256 = (req.url ?? '').slice(IMAGES_PATH.length).split('?', 1)[0] as string
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw notFound(sha256)
    const read = async () => {
      await scopes.checkImage(caller, sha256)
      return imagesByHash(db, [sha256])
    }
    const images = await read().catch((error: unknown) => {
      throw translateError(error, readiness)
    })
    const bytes = images.get(sha256)
    if (bytes === undefined) throw notFound(sha256)
    const type = FORMATS.find(([, hex]) => hex.test(bytes.toString('hex', 0, 16)))?.[0]
    res.writeHead(200, {
      'content-type': type ?? 'application/octet-stream',
      'content-length': bytes.length,
      ...(type === undefined ? { 'content-disposition': 'attachment' } : {}),
    })
    res.end(req.method === 'HEAD' ? undefined : bytes)
  }
}

function notFound(sha256: string): RewardOpsError {
  return new RewardOpsError('image_not_found', `There is no image ${sha256.slice(0, 100)}.`)
}
