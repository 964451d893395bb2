import { RewardOpsError } from '../errors.ts'

/** Decodes the % escapes of a path or of a path segment. @throws RewardOpsError `invalid_input` */
export function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new RewardOpsError('invalid_input', 'The URL has an invalid % escape.', {
      hint: 'Write % as %25.',
    })
  }
}
