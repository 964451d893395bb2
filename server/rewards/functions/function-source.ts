/** A version of a function's source: its file and every file that it imports from the functions folder. */
export interface FunctionSource {
  /** SHA-256 of path and files, hexadecimal. */
  hash: string
  /** The entry file, relative to the functions folder, with `/`. */
  path: string
  /** Contents by path relative to the folder; files that are not UTF-8 as base64. */
  files: Record<string, string | { base64: string }>
}

/** Finds the stored source of a version that is not on a worker's disk. Null if there is none. */
export type FunctionSources = (hash: string) => Promise<FunctionSource | null>
