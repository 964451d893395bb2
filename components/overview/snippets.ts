export interface Snippet {
  language: 'curl' | 'Python' | 'TypeScript'
  /** The requirements of the example. The page puts “requires” before them. */
  needs: string
  code: string
  prints: string
}

const SAMPLES = [
  { groundTruth: '72', response: '6 * 12 = 72\n#### 72' },
  { groundTruth: '72', response: '6 * 12 = 74\n#### 74' },
].map((rest) => ({
  uid: 'q1',
  dataSource: 'openai/gsm8k',
  prompt: 'What is 6 * 12?',
  ...rest,
}))

/** A sample as JSON on two lines, so that it fits next to the text. */
function sampleJson(sample: (typeof SAMPLES)[number], indent: string): string {
  const parts = Object.entries(sample).map(
    ([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`,
  )
  return `${indent}{${parts.slice(0, 3).join(', ')},\n${indent} ${parts.slice(3).join(', ')}}`
}

export function submitSnippets(address: string, keyed: boolean): Snippet[] {
  return [
    {
      language: 'curl',
      needs: 'curl',
      code: curl(address, keyed),
      prints: '{"result":{"data":{"batchId":"b1","accepted":2,"groups":1,"duplicate":false}}}',
    },
    {
      language: 'Python',
      needs: 'the standard library',
      code: python(address, keyed),
      prints: 'q1 [1, 0]',
    },
    {
      language: 'TypeScript',
      needs: 'Node 22.18 or newer, no packages',
      code: typescript(address, keyed),
      prints: 'q1 [ 1, 0 ]',
    },
  ]
}

function curl(address: string, keyed: boolean): string {
  const samples = SAMPLES.map((sample) => sampleJson(sample, '    ')).join(',\n')
  return [
    `curl -s ${address}/api/trpc/batches.submit \\`,
    `  -H 'content-type: application/json' \\`,
    ...(keyed ? [`  -H "authorization: Bearer $REWARDOPS_KEY" \\`] : []),
    `  -d '{"run": "first-run", "step": 1, "samples": [`,
    `${samples}]}'`,
  ].join('\n')
}

function python(address: string, keyed: boolean): string {
  const samples = SAMPLES.map((sample) => `${sampleJson(sample, '    ')},`).join('\n')
  return `${keyed ? 'import json, os, urllib.parse, urllib.request' : 'import json, urllib.parse, urllib.request'}

API = "${address}/api/trpc/"
HEADERS = {"content-type": "application/json"${keyed ? ', "authorization": "Bearer " + os.environ["REWARDOPS_KEY"]' : ''}}

def call(procedure, body=None, query=None):
    url = API + procedure + ("?input=" + urllib.parse.quote(json.dumps(query)) if query else "")
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(url, data, HEADERS)) as answer:
        return json.load(answer)["result"]["data"]

samples = [
${samples}
]
batch = call("batches.submit", {"run": "first-run", "step": 1, "samples": samples})["batchId"]
cursor, done = None, False
while not done:  # complete groups, in completion order
    answer = call("batches.next", query={"batchId": batch, "after": cursor, "waitMs": 20000})
    for group in answer["groups"]:
        print(group["uid"], [sample["score"] for sample in group["samples"]])
    cursor, done = answer["cursor"], answer["done"]
`
}

function typescript(address: string, keyed: boolean): string {
  const samples = SAMPLES.map((sample) => `${sampleJson(sample, '  ')},`).join('\n')
  return `const api = '${address}/api/trpc/'
const headers = { 'content-type': 'application/json'${keyed ? `, authorization: \`Bearer \${process.env.REWARDOPS_KEY}\`` : ''} }

async function call(procedure: string, query?: unknown, body?: unknown): Promise<any> {
  const url = api + procedure + (query ? '?input=' + encodeURIComponent(JSON.stringify(query)) : '')
  const answer = await fetch(url, body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers })
  const { result, error } = await answer.json()
  if (error) throw new Error(error.message + ' ' + error.data.hint)
  return result.data
}

const samples = [
${samples}
]
const { batchId } = await call('batches.submit', undefined, { run: 'first-run', step: 1, samples })
for (let after = null, done = false; !done; ) {
  const answer = await call('batches.next', { batchId, after, waitMs: 20_000 })
  for (const group of answer.groups) console.log(group.uid, group.samples.map((s: any) => s.score))
  ;({ cursor: after, done } = answer)
}
`
}
