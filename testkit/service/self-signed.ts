import { generateKeyPairSync, sign } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'

/** A key and a self-signed certificate for `localhost`, as PEM. */
export function selfSignedCertificate(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  // ecdsa-with-SHA256, 1.2.840.10045.4.3.2
  const algorithm = sequence(tagged(0x06, Buffer.from('2a8648ce3d040302', 'hex')))
  // commonName, 2.5.4.3
  const name = sequence(
    tagged(
      0x31,
      sequence(tagged(0x06, Buffer.from('550403', 'hex')), tagged(0x0c, Buffer.from('localhost'))),
    ),
  )
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.from([1])),
    algorithm,
    name,
    sequence(utcTime(-86_400_000), utcTime(86_400_000)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
  )
  const signature = sign('sha256', body, privateKey)
  const certificate = sequence(
    body,
    algorithm,
    tagged(0x03, Buffer.concat([Buffer.from([0]), signature])),
  )
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  }
}

export async function startSelfSigned(
  handler: RequestListener,
): Promise<{ url: string; server: Server }> {
  const server = createServer(selfSignedCertificate(), handler)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

/** Encodes a value in DER: tag, content length, content. */
function tagged(tag: number, content: Buffer): Buffer {
  const length =
    content.length < 128
      ? [content.length]
      : content.length < 256
        ? [0x81, content.length]
        : [0x82, content.length >> 8, content.length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts))
}

/** A time relative to now, as YYMMDDhhmmssZ. */
function utcTime(fromNowMs: number): Buffer {
  const text = new Date(Date.now() + fromNowMs).toISOString().replace(/[-:T]|\.\d+/g, '')
  return tagged(0x17, Buffer.from(text.slice(2)))
}
