import type { ImportedConfigDto } from '../../server/contract/rewards.ts'

type Imported = Pick<ImportedConfigDto, 'reward' | 'groupSize'>

/** `batches.submit` with the imported reward, as a shell command; `keyed` adds the API key header. */
export function submitCurl(
  { reward, groupSize }: Imported,
  address: string,
  keyed: boolean,
): string {
  const body = {
    run: 'imported',
    step: 1,
    ...(groupSize === null ? {} : { groupSize }),
    reward,
    samples: [
      {
        uid: 'q1',
        dataSource: 'openai/gsm8k',
        prompt: 'What is 6 * 12?',
        response: '6 * 12 = 72\n#### 72',
        groundTruth: '72',
        responseLength: 14,
      },
    ],
  }
  return curl('batches.submit', body, address, keyed)
}

export function launchCurl(server: object, address: string, keyed: boolean): string {
  return curl('servers.launch', server, address, keyed)
}

function curl(procedure: string, body: object, address: string, keyed: boolean): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", "'\\''")
  return [
    `curl -s ${address}/api/trpc/${procedure} \\`,
    `  -H 'content-type: application/json' \\`,
    ...(keyed ? [`  -H "authorization: Bearer $REWARDOPS_KEY" \\`] : []),
    `  -d '${json}'`,
  ].join('\n')
}

/**
 * The command that serves a Python function. `keyed` adds the API key that the command needs to register the function.
 */
export function serveCommand(words: readonly string[], keyed: boolean): string {
  return `${keyed ? 'REWARDOPS_API_KEY="$REWARDOPS_KEY" ' : ''}${shellWords(words)}`
}

export function shellWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(' ')
}
