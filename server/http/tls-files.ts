import { readFileSync, unwatchFile, watchFile } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Logger } from '../log.ts'

export interface TlsFiles {
  /** The certificate, followed by the chain, in PEM. */
  certFile: string
  /** The private key of the certificate in PEM, without a passphrase. */
  keyFile: string
}

/**
 * Interval between checks of the files, in ms. The files are polled, because watching them misses certificates that are
 * replaced through symbolic links.
 */
const POLL_MS = 5_000

/**
 * Reads the certificate and its key.
 * @throws Error that names the settings if a file cannot be read or the two do not match
 */
export function readTlsFiles({ certFile, keyFile }: TlsFiles): { cert: Buffer; key: Buffer } {
  try {
    const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
    createSecureContext(pair)
    return pair
  } catch (error) {
    throw new Error(
      `REWARDOPS_TLS_CERT and REWARDOPS_TLS_KEY are not a certificate and its key: ${(error as Error).message}`,
    )
  }
}

/**
 * Reloads a server's certificate when the files change. If they are invalid or do not match, logs an error and keeps
 * the current certificate, so the two files may be replaced one after the other. Returns a function that stops the
 * watch.
 */
export function watchTlsFiles(
  files: TlsFiles,
  server: { setSecureContext(pair: { cert: Buffer; key: Buffer }): void },
  log: Pick<Logger, 'info' | 'error'>,
  pollMs = POLL_MS,
): () => void {
  const reload = () => {
    try {
      server.setSecureContext(readTlsFiles(files))
      log.info('the TLS certificate was reloaded')
    } catch (error) {
      log.error({ err: (error as Error).message }, 'the TLS certificate was not reloaded')
    }
  }
  const paths = [files.certFile, files.keyFile]
  for (const path of paths) watchFile(path, { interval: pollMs, persistent: false }, reload)
  return () => {
    for (const path of paths) unwatchFile(path, reload)
  }
}
