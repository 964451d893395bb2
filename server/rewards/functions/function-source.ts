/** A version of a function's source: its file and everything that this imports from the functions folder. */
export interface FunctionSource {
  /** SHA-256 of path and files, hexadecimal. */
  hash: string
  /** The file that is imported, relative to the functions folder, with `/`. */
  path: string
  /** Contents by path relative to the folder; what is not UTF-8 as base64. */
  files: Record<string, string | { base64: string }>
}

/** Where a worker finds a version that its own folder may not have, or no longer. Null: there is none. */
export type FunctionSources = (hash: string) => Promise<FunctionSource | null>
