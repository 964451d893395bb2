import { nextFence, type RolloutBlock } from './rollout-blocks.ts'

export interface OutlineEntry {
  label: string
  kind: 'heading' | 'think' | 'call' | 'result' | 'answer'
  /** 0 for the outermost entries. */
  level: number
  start: number
}

const MAX_ENTRIES = 200

/** A heading with `#`, or a line in bold. `####` with a number is skipped later, as an answer in GSM8K's format. */
const HEADING = /^ {0,3}(?:(#{1,6})[ \t]+(\S[^\n]*)|\*\*([^*\n]{2,80})\*\*:?[ \t]*)$/gm

export function outlineOf(text: string, blocks: readonly RolloutBlock[]): OutlineEntry[] {
  const entries: OutlineEntry[] = []
  for (const block of blocks) {
    if (block.kind === 'text') {
      entries.push(...headings(text, block.start, block.end))
      continue
    }
    entries.push({ label: labelOf(block), kind: block.kind, level: 0, start: block.start })
  }
  const levels = [...new Set(entries.map(({ level }) => level))].sort((a, b) => a - b)
  return entries
    .slice(0, MAX_ENTRIES)
    .map((entry) => ({ ...entry, level: Math.min(2, levels.indexOf(entry.level)) }))
}

function labelOf(block: RolloutBlock): string {
  if (block.kind === 'think') return 'Reasoning'
  if (block.kind === 'call') return block.call?.name || 'Tool call'
  if (block.kind === 'result')
    return block.name === null ? 'Tool result' : `Result of ${block.name}`
  return 'Answer'
}

function headings(text: string, from: number, to: number): OutlineEntry[] {
  const found: OutlineEntry[] = []
  const slice = text.slice(from, to)
  const fences = fenceRanges(slice)
  for (const match of slice.matchAll(HEADING)) {
    if (found.length === MAX_ENTRIES) break
    if (fences.some(([start, end]) => match.index >= start && match.index < end)) continue
    const [, marks, title, bold] = match
    const label = (title ?? bold ?? '').replace(/\s*#+\s*$|[*`]/g, '').trim()
    if (label === '' || (marks?.length === 4 && /^[-+$]?[\d.,]+$/.test(label))) continue
    const level = marks?.length ?? 7
    found.push({ label: label.slice(0, 80), kind: 'heading', level, start: from + match.index })
  }
  return found
}

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/gm

function fenceRanges(text: string): [number, number][] {
  const ranges: [number, number][] = []
  let start = 0
  let fence: string | null = null
  for (const { index, 1: marker = '', 2: info = '' } of text.matchAll(FENCE)) {
    const open = nextFence(fence, marker, info)
    if (fence === null) start = index
    else if (open === null) ranges.push([start, index])
    fence = open
  }
  if (fence !== null) ranges.push([start, text.length])
  return ranges
}
