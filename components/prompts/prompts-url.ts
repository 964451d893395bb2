import {
  PROMPT_CLASSES,
  type PromptClass,
  type PromptListInput,
} from '../../server/contract/prompts.ts'
import { rangeOfText, rangeText, type StepRange } from '../runs/run-url.ts'
import type { UrlCodec } from '../url/use-url.ts'

type Split = 'train' | 'val'

export const PROMPT_VIEWS = [
  { value: 'list', label: 'List' },
  { value: 'heat', label: 'Heat map' },
  { value: 'steps', label: 'Steps' },
] as const
export type PromptsViewName = (typeof PROMPT_VIEWS)[number]['value']

type Ordering = Pick<PromptListInput, 'orderBy' | 'descending'>

export const PROMPT_SORTS = [
  { value: 'fall', label: 'Largest fall first', orderBy: 'change', descending: false },
  { value: 'rise', label: 'Largest rise first', orderBy: 'change', descending: true },
  { value: 'lowest', label: 'Hardest first', orderBy: 'rate', descending: false },
  { value: 'highest', label: 'Easiest first', orderBy: 'rate', descending: true },
  { value: 'varied', label: 'Most varied first', orderBy: 'varied', descending: true },
  { value: 'visits', label: 'Most visits first', orderBy: 'visits', descending: true },
  { value: 'newest', label: 'Newest first', orderBy: 'lastStep', descending: true },
  { value: 'oldest', label: 'Oldest first', orderBy: 'lastStep', descending: false },
] as const satisfies readonly ({ value: string; label: string } & Ordering)[]
export type PromptSort = (typeof PROMPT_SORTS)[number]['value']

export interface PromptsUrl {
  split: Split
  view: PromptsViewName
  class: PromptClass | null
  source: string | null
  search: string | null
  sort: PromptSort
  /** The steps that the charts show; null shows all steps. */
  zoom: StepRange | null
}

export const promptsUrl: UrlCodec<PromptsUrl> = {
  parse: (params) => ({
    split: splitOf(params),
    view: PROMPT_VIEWS.find(({ value }) => value === params.get('view'))?.value ?? 'list',
    class: PROMPT_CLASSES.find((name) => name === params.get('class')) ?? null,
    source: params.get('source')?.slice(0, 256) ?? null,
    search: params.get('search')?.slice(0, 200) || null,
    sort: PROMPT_SORTS.find(({ value }) => value === params.get('sort'))?.value ?? 'fall',
    zoom: rangeOfText(params.get('zoom')),
  }),
  write(state) {
    const params = new URLSearchParams()
    if (state.split !== 'train') params.set('split', state.split)
    if (state.view !== 'list') params.set('view', state.view)
    if (state.class !== null) params.set('class', state.class)
    if (state.source !== null) params.set('source', state.source)
    if (state.search !== null) params.set('search', state.search)
    if (state.sort !== 'fall') params.set('sort', state.sort)
    if (state.zoom !== null) params.set('zoom', rangeText(state.zoom))
    return params
  },
}

export function filterOfAllClasses(run: string, { split, source, search }: PromptsUrl) {
  return { run, split, dataSource: source ?? undefined, search: search ?? undefined }
}

export function promptFilter(run: string, url: PromptsUrl) {
  return { ...filterOfAllClasses(run, url), class: url.class ?? undefined }
}

export function orderingOf(sort: PromptSort): Ordering {
  const { orderBy, descending } = PROMPT_SORTS.find(({ value }) => value === sort)!
  return { orderBy, descending }
}

/** The URL state of the page of a prompt. Visits are identified by {@link visitIds}. */
export interface PromptUrl {
  split: Split
  /** The visit whose responses are shown. Null shows the newest visit that has samples. */
  visit: string | null
  /** The visit whose responses are shown beside those of `visit`, or null for none. */
  beside: string | null
}

export const promptUrl: UrlCodec<PromptUrl> = {
  parse: (params) => ({
    split: splitOf(params),
    visit: params.get('visit'),
    beside: params.get('beside'),
  }),
  write({ split, visit, beside }) {
    const params = new URLSearchParams()
    if (split !== 'train') params.set('split', split)
    if (visit !== null) params.set('visit', visit)
    if (beside !== null) params.set('beside', beside)
    return params
  },
}

/** An id per visit: the batch, and a number for the second and later groups of the prompt in the batch. */
export function visitIds(visits: readonly { batchId: string }[]): string[] {
  const seen = new Map<string, number>()
  return visits.map(({ batchId }) => {
    const before = seen.get(batchId) ?? 0
    seen.set(batchId, before + 1)
    return before === 0 ? batchId : `${batchId}.${before + 1}`
  })
}

export function promptsHref(run: string, state: Partial<PromptsUrl> = {}): string {
  const all = { ...promptsUrl.parse(new URLSearchParams()), ...state }
  return addressOf(`/runs/${encodeURIComponent(run)}/prompts`, promptsUrl.write(all))
}

export function promptHref(run: string, split: Split, key: string): string {
  const path = `/runs/${encodeURIComponent(run)}/prompts/${key}`
  return addressOf(path, promptUrl.write({ split, visit: null, beside: null }))
}

function addressOf(path: string, params: URLSearchParams): string {
  const query = params.toString()
  return query === '' ? path : `${path}?${query}`
}

function splitOf(params: URLSearchParams): Split {
  return params.get('split') === 'val' ? 'val' : 'train'
}
