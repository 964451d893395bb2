import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { RewardOpsError } from '../errors.ts'
import type { Access } from './access.ts'
import type { Handler } from './listener.ts'

/**
 * `GET /api/openapi.json`: the procedures as an OpenAPI document, which scripts/api-doc.ts generates. The file (0.5 MB)
 * is read at the first request, because most services never serve it.
 */
export function createOpenApi(access: Access): Handler {
  let document: { body: Buffer; etag: string } | undefined
  return (req, res) => {
    if (req.method !== 'GET' && req.method !== 'HEAD')
      throw new RewardOpsError('method_not_allowed', '/api/openapi.json accepts only GET.')
    access.admit(req, 'openapi')
    document ??= readDocument()
    const { body, etag } = document
    // Caches revalidate each time, because an upgrade of the service changes the document.
    res.setHeader('etag', etag).setHeader('cache-control', 'private, no-cache')
    if (req.headers['if-none-match'] === etag) {
      res.writeHead(304).end()
      return
    }
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
    res.end(req.method === 'HEAD' ? undefined : body)
  }
}

function readDocument(): { body: Buffer; etag: string } {
  const body = readFileSync(new URL('openapi.json', import.meta.url))
  return { body, etag: `"${createHash('sha256').update(body).digest('base64url')}"` }
}
