import { literalPattern } from '../../contract/sample-filter.ts'
import { isStorable, readableText } from '../../contract/storable-text.ts'
import type { Database } from '../database.ts'
import { decodeTexts } from '../stored-texts.ts'

export interface SampleKey {
  batch_id: number
  idx: number
}

export interface TextSearchResult {
  hits: boolean[]
  bytes: number
  /** Samples whose texts were removed with their partition. */
  dropped: number
}

/**
 * Searches samples for a text in prompt, response or ground truth, ignoring case. Values stored as JSON (chat messages,
 * ground truths, texts with NUL) are first searched as JSON and then decoded, so that keys and escapes of the JSON do
 * not match.
 */
export async function searchTexts(
  db: Database,
  text: string,
  samples: readonly (SampleKey & { bucket: string })[],
): Promise<TextSearchResult> {
  // A text with NUL or lone surrogates occurs only in JSON, because Postgres cannot store it otherwise.
  const plain = isStorable(text)
  const patterns = [
    likePattern(readableText(text)),
    likePattern(JSON.stringify(text).slice(1, -1)),
    plain,
  ]
  const hits = samples.map(() => false)
  const unsure: number[] = []
  let bytes = 0
  let found = 0
  // One statement per batch, on one partition: lookups of single samples over all partitions take four times as long.
  for (const places of Map.groupBy(samples.keys(), (at) => samples[at]!.batch_id).values()) {
    const { bucket, batch_id } = samples[places[0]!]!
    const placeOf = new Map(places.map((place) => [samples[place]!.idx, place]))
    const rows = await db.rows<{ idx: number; bytes: number; hit: number }>(
      'look-at-texts',
      `select idx, octet_length(prompt) + octet_length(response) + coalesce(octet_length(ground_truth), 0) as bytes, ${HIT} as hit
       from sample_text where bucket = $1::date and batch_id = $2 and idx = any($3::int[])`,
      [bucket, batch_id, [...placeOf.keys()], ...patterns],
    )
    found += rows.length
    for (const row of rows) {
      bytes += row.bytes
      const place = placeOf.get(row.idx) as number
      if (row.hit === 2) hits[place] = true
      else if (row.hit === 1) unsure.push(place)
    }
  }
  if (unsure.length > 0) await searchDecoded(db, text, samples, unsure, hits)
  return { hits, bytes, dropped: samples.length - found }
}

/**
 * SQL that is 2 for a match, 0 for no match, and 1 if this process must decode the text because Postgres cannot. A
 * ground truth that is not a string is displayed, and searched, as JSON.
 */
const HIT = `case
  when encoding & 5 = 0 and $6 and prompt ilike $4 then 2
  when encoding & 10 = 0 and $6 and response ilike $4 then 2
  when encoding & 10 <> 0 and response ilike $5 then 1
  when encoding & 1 <> 0 and prompt ilike $5 then 1
  when encoding & 4 <> 0 and prompt ilike $5 and prompt like '%\\\\u%' then 1
  when encoding & 4 <> 0 and prompt ilike $5 and $6
    and exists (select 1 from json_array_elements(prompt::json) m where (m ->> 'content') ilike $4) then 2
  when ground_truth is null or not (ground_truth ilike $5 or ($6 and ground_truth ilike $4)) then 0
  when ground_truth like '%\\\\u%' then 1
  when not $6 then 0
  when ground_truth not like '"%' then 2
  when (ground_truth::json #>> '{}') ilike $4 then 2
  else 0 end`

/** The start of a sample's texts. For a prompt of chat messages, this is the start of the user's first message. */
export interface TextStart extends SampleKey {
  prompt: string
  response: string
  encoding: number
}

/** Returns 200 characters of each text, or 1,500 of JSON. Samples without texts are left out. */
export async function textStarts(
  db: Database,
  samples: readonly SampleKey[],
): Promise<TextStart[]> {
  return await db.rows<TextStart>(
    'text-starts',
    `select p.batch_id, t.idx, t.encoding,
       case when t.encoding & 4 <> 0 then substr(t.prompt, greatest(1, strpos(left(t.prompt, 65536), '"role":"user"')), 1500)
            else left(t.prompt, case when t.encoding & 1 <> 0 then 1500 else 200 end) end as prompt,
       left(t.response, case when t.encoding & 10 <> 0 then 1500 else 200 end) as response
     from unnest($1::int[], $2::int[]) as p(batch_id, idx) join batch b on b.id = p.batch_id
     cross join lateral (
       select * from sample_text where bucket = b.text_bucket and batch_id = p.batch_id and idx = p.idx offset 0) t`,
    [samples.map(({ batch_id }) => batch_id), samples.map(({ idx }) => idx)],
  )
}

/** Decodes the few texts with an escape that Postgres cannot decode, and searches them. */
async function searchDecoded(
  db: Database,
  text: string,
  samples: readonly (SampleKey & { bucket: string })[],
  places: readonly number[],
  hits: boolean[],
): Promise<void> {
  const PAGE = 64
  for (let from = 0; from < places.length; from += PAGE) {
    const page = places.slice(from, from + PAGE)
    const of = page.map((place) => samples[place]!)
    const rows = await db.adhoc<
      { place: number } & Record<'prompt' | 'response' | 'ground_truth', string | null> & {
          encoding: number
        }
    >(
      `select p.place::int as place, t.prompt, t.response, t.ground_truth, t.encoding
       from unnest($1::date[], $2::int[], $3::int[]) with ordinality as p(bucket, batch_id, idx, place)
       cross join lateral (
         select * from sample_text where bucket = p.bucket and batch_id = p.batch_id and idx = p.idx offset 0) t`,
      [of.map((s) => s.bucket), of.map((s) => s.batch_id), of.map((s) => s.idx)],
    )
    for (const row of rows) {
      hits[page[row.place - 1]!] = holds(text, decodeTexts({ ...row, extra_info: null }))
    }
  }
}

function holds(
  text: string,
  texts: Pick<ReturnType<typeof decodeTexts>, 'prompt' | 'response' | 'groundTruth'>,
): boolean {
  const { prompt, response, groundTruth } = texts
  const shown = [
    ...[prompt, response].flatMap((said) =>
      typeof said === 'string'
        ? [said]
        : said.map(({ content }) =>
            typeof content === 'string' ? content : JSON.stringify(content),
          ),
    ),
    ...(typeof groundTruth === 'string'
      ? [groundTruth]
      : groundTruth === null
        ? []
        : [JSON.stringify(groundTruth)]),
  ]
  const pattern = literalPattern(text)
  return shown.some((one) => one.search(pattern) >= 0)
}

export function likePattern(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
}
