const MIN_CHARS = 18
const END_CHARS = 7

/** Shortens a name in the middle, because names of runs and servers often differ only at their ends. */
export function MiddleText({ text, className = '' }: { text: string; className?: string }) {
  if (text.length < MIN_CHARS) {
    return <span className={`block min-w-0 truncate ${className}`}>{text}</span>
  }
  const code = text.charCodeAt(text.length - END_CHARS)
  const at = text.length - END_CHARS + (code >= 0xdc00 && code <= 0xdfff ? 1 : 0)
  // The end has a fixed width, and the start takes the remaining width. A flex layout would add a line break to copied
  // text. Both parts are left-aligned, because centered text, as in a button, would separate them.
  return (
    <span className={`block min-w-0 overflow-hidden whitespace-pre ${className}`}>
      <span className="inline-block max-w-[calc(100%-8ch)] overflow-hidden text-start align-bottom text-ellipsis">
        {text.slice(0, at)}
      </span>
      <span className="inline-block min-w-[8ch] text-start align-bottom">{text.slice(at)}</span>
    </span>
  )
}
