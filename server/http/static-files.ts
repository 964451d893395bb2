import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { type ContentEncoding, chosenEncoding } from './content-encoding.ts'

export const STATIC_PATH = '/_next/static/'

const TYPES: Record<string, { type: string; packs: boolean }> = {
  '.js': { type: 'text/javascript; charset=utf-8', packs: true },
  '.css': { type: 'text/css; charset=utf-8', packs: true },
  '.json': { type: 'application/json; charset=utf-8', packs: true },
  '.svg': { type: 'image/svg+xml', packs: true },
  '.txt': { type: 'text/plain; charset=utf-8', packs: true },
  '.woff2': { type: 'font/woff2', packs: false },
  '.ico': { type: 'image/x-icon', packs: false },
  '.png': { type: 'image/png', packs: false },
}

/** Minimum size of a file that is compressed. Smaller files fit into one packet. */
const WORTH_PACKING_BYTES = 1_000

/**
 * Brotli level. At level 9, the overview's script is 4 % larger than at the highest level, 11, but compressing it takes
 * 0.1 s instead of 2 s. Browsers accept brotli only over TLS and from localhost, and gzip everywhere.
 */
const BROTLI_QUALITY = 9
const GZIP_LEVEL = 9

const packers: Record<ContentEncoding, (plain: Buffer) => Promise<Buffer>> = {
  br: (plain) =>
    promisify(brotliCompress)(plain, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: plain.length,
      },
    }),
  gzip: (plain) => promisify(gzip)(plain, { level: GZIP_LEVEL }),
}

/**
 * Serves the files of the pages' build (scripts, styles, fonts). Each file is compressed once per process, whereas Next
 * would compress it for each visitor. Browsers cache the files forever, because their names contain a digest of the
 * content.
 *
 * `edited` changes text files before they are compressed.
 *
 * The handler returns false and sends nothing if the build has no such file or the method is neither GET nor HEAD.
 */
export async function createStaticFiles(
  folder: string,
  edited: (plain: Buffer) => Buffer = (plain) => plain,
): Promise<(path: string, req: IncomingMessage, res: ServerResponse) => Promise<boolean>> {
  const known = new Set<string>()
  for (const file of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(file.parentPath, file.name).slice(folder.length).replace(/^\/+/, '')
    if (file.isFile() && extname(path) in TYPES) known.add(path)
  }
  const kept = new Map<string, Promise<Buffer>>()

  function bytesOf(path: string, encoding: ContentEncoding | null): Promise<Buffer> {
    const key = `${encoding ?? ''} ${path}`
    const found = kept.get(key)
    if (found) return found
    const plain = readFile(join(folder, path)).then(
      TYPES[extname(path)]?.packs ? edited : undefined,
    )
    const bytes = encoding === null ? plain : plain.then(packers[encoding])
    kept.set(key, bytes)
    // A failed read is repeated at the next request.
    bytes.catch(() => kept.delete(key))
    return bytes
  }

  return async function onStatic(path, req, res) {
    if (req.method !== 'GET' && req.method !== 'HEAD') return false
    const name = decoded(path.slice(STATIC_PATH.length))
    if (name === null || !known.has(name)) return false
    const { type, packs } = TYPES[extname(name)] as { type: string; packs: boolean }
    const plain = packs ? await bytesOf(name, null) : null
    const encoding =
      plain !== null && plain.length >= WORTH_PACKING_BYTES
        ? chosenEncoding(req.headers['accept-encoding'], ['br', 'gzip'])
        : null
    const bytes = await bytesOf(name, encoding)
    res.writeHead(200, {
      'content-type': type,
      'content-length': bytes.length,
      'cache-control': 'public, max-age=31536000, immutable',
      ...(encoding === null ? {} : { 'content-encoding': encoding }),
      ...(packs ? { vary: 'accept-encoding' } : {}),
    })
    res.end(req.method === 'HEAD' ? undefined : bytes)
    return true
  }
}

function decoded(path: string): string | null {
  try {
    return decodeURIComponent(path)
  } catch {
    return null
  }
}
