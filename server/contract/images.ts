/** The path of stored images: `GET /api/images/<SHA-256>`. */
export const IMAGES_PATH = '/api/images/'

/**
 * A reference to a stored image: a data URL with `/` and the SHA-256 in place of the base64. Base64 is never 65
 * characters long, so no image is mistaken for a reference.
 */
const REFERENCE = /^data:(image\/[^,]{1,100});base64,\/([0-9a-f]{64})$/

/** Returns the stored image that a data URL refers to, with the sent media type. Null if the URL is not a reference. */
export function storedImageOf(url: string): { type: string; sha256: string } | null {
  const [, type, sha256] = REFERENCE.exec(url) ?? []
  return type === undefined || sha256 === undefined ? null : { type, sha256 }
}
