'use client'

import { Image } from 'lucide-react'
import { type ComponentProps, createElement, memo, type ReactNode, use, useMemo } from 'react'
import Markdown, { type Components, type ExtraProps, type Options } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { CodeBlock } from './code-block.tsx'
import { markdownSource } from './markdown-source.ts'
import { MarkedText } from './marked-text.tsx'
import { type CodeData, type MarkData, rehypeRollout } from './rehype-rollout.ts'
import { type MarkKind, markProps, type TextMark } from './text-marks.ts'
import './rendered-markdown.css'

type Typesetting = typeof import('./formula-html.ts')
let typesetting: Promise<Typesetting> | undefined

function loadTypesetting(): Promise<Typesetting> {
  typesetting ??= import('./formula-html.ts').catch((error: unknown) => {
    typesetting = undefined
    throw error
  })
  return typesetting
}

/**
 * A chunk of a text as Markdown. HTML tags stay text. Links and images are text with their URL, so that a model's
 * text can neither load nor open anything.
 */
export const RenderedMarkdown = memo(function RenderedMarkdown({
  source,
  marks,
  at,
}: {
  source: string
  /** Marks with positions relative to `source`. */
  marks: readonly TextMark[]
  /** The position of `source` in its text. Headings have it as an attribute, for the outline. */
  at: number
}) {
  const prepared = useMemo(() => markdownSource(source), [source])
  // The component suspends before it parses the text, because a suspended render is repeated from the start.
  if (prepared.formulas.length > 0) use(loadTypesetting())
  const rehypePlugins = useMemo<Options['rehypePlugins']>(
    () => [[rehypeRollout, { source, prepared, marks }]],
    [source, prepared, marks],
  )
  const components = useMemo(() => ({ ...COMPONENTS, ...headings(at) }), [at])
  return (
    <div className="rollout-md">
      <Markdown
        remarkPlugins={REMARK_PLUGINS}
        rehypePlugins={rehypePlugins}
        components={components}
        urlTransform={asWritten}
      >
        {prepared.text}
      </Markdown>
    </div>
  )
})

/** URLs stay unchanged, because no element loads them. */
function asWritten(url: string): string {
  return url
}

/**
 * Disables constructs that hide text or change its meaning: HTML, link definitions, footnotes, and underlined headings.
 * Models use such underlines as separators.
 */
function withoutHidingConstructs(this: { data(): object }): void {
  const data = this.data() as { micromarkExtensions?: object[] }
  data.micromarkExtensions ??= []
  data.micromarkExtensions.push({
    disable: {
      null: [
        ...['htmlFlow', 'htmlText', 'definition', 'setextUnderline'],
        ...['gfmFootnoteDefinition', 'gfmFootnoteCall', 'gfmPotentialFootnoteCall'],
      ],
    },
  })
}

const REMARK_PLUGINS: Options['remarkPlugins'] = [
  [remarkGfm, { singleTilde: false }],
  withoutHidingConstructs as never,
]

type Props<Tag extends keyof React.JSX.IntrinsicElements> = ComponentProps<Tag> & ExtraProps

/** An element whose text direction, left to right or right to left, follows its text. */
function directed(tag: 'li' | 'blockquote' | 'td' | 'th' | 'ul' | 'ol') {
  return ({ node: _, ...props }: object & ExtraProps) =>
    createElement(tag, { dir: 'auto', ...props })
}

/** Headings at levels below those of the page, with their positions in the text. */
function headings(at: number): Partial<Components> {
  const heading = (level: number) => {
    return ({ node, children }: Props<'h1'>) =>
      createElement(
        `h${Math.min(6, level + 3)}`,
        {
          dir: 'auto',
          'data-level': level,
          'data-at': at + (node?.position?.start.offset ?? 0),
        },
        children,
      )
  }
  return {
    // The outline lists bold lines as headings.
    p: ({ node, children }: Props<'p'>) => {
      const first = node?.children[0]
      const isBold = first?.type === 'element' && first.tagName === 'strong'
      const start = node?.position?.start.offset
      return (
        <p dir="auto" data-at={isBold && start !== undefined ? at + start : undefined}>
          {children}
        </p>
      )
    },
    h1: heading(1),
    h2: heading(2),
    h3: heading(3),
    h4: heading(4),
    h5: heading(5),
    h6: heading(6),
  }
}

const COMPONENTS: Components & Record<string, unknown> = {
  li: directed('li'),
  ul: directed('ul'),
  ol: directed('ol'),
  blockquote: directed('blockquote'),
  td: directed('td'),
  th: directed('th'),
  a: Address,
  img: ({ alt, src, title }: Props<'img'>) => (
    <span className="rollout-image" title={title}>
      <Image size={12} aria-hidden />
      <MarkedText text={alt || 'Image'} />
      <span className="rollout-address">
        <MarkedText text={decoded(String(src ?? ''))} />
      </span>
    </span>
  ),
  input: ({ checked }: Props<'input'>) => (
    <span role="img" aria-label={checked ? 'Checked' : 'Not checked'}>
      {checked ? '☑' : '☐'}
    </span>
  ),
  table: ({ node: _, ...props }: Props<'table'>) => (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be focusable (WCAG 2.1.1)
    <section aria-label="Table" tabIndex={0} className="rollout-table">
      <table {...props} />
    </section>
  ),
  pre: ({ node }: Props<'pre'>) => {
    const code = (node?.data as CodeData | undefined)?.rolloutCode
    const child = node?.children[0]
    const className = child?.type === 'element' ? child.properties.className : undefined
    const language = /language-(\S+)/.exec(String(className ?? ''))?.[1] ?? null
    return (
      <CodeBlock
        text={code?.text.replace(/\n$/, '') ?? ''}
        marks={code?.marks ?? []}
        language={language}
      />
    )
  },
  mark: ({ node, children }: Props<'mark'>) => {
    const look = (node?.data as MarkData | undefined)?.rolloutMark
    return look === undefined ? children : <mark {...markProps(look)}>{children}</mark>
  },
  'rollout-char': ({ node, children }: { children?: ReactNode } & ExtraProps) => (
    <span className="rollout-char" title={String(node?.properties.title ?? '')}>
      {children}
    </span>
  ),
  'rollout-math': Formula,
}

function Formula({ node, children }: { children?: ReactNode } & ExtraProps) {
  const { dataMath, dataBody, dataSource, dataMark } = node?.properties ?? {}
  const source = String(dataSource ?? '')
  const kind = dataMark as MarkKind | undefined
  const marked = kind === undefined ? {} : markProps({ kind })
  const isDisplay = dataMath === 'display'
  const { formulaHtml } = use(loadTypesetting())
  const html = useMemo(
    () => (dataBody === undefined ? null : formulaHtml(String(dataBody), isDisplay)),
    [formulaHtml, dataBody, isDisplay],
  )
  if (html === null) {
    return (
      <code data-math="source" {...marked}>
        {children}
      </code>
    )
  }
  // A long formula scrolls, so it must be focusable.
  const focus = isDisplay && source.length > 60 ? { tabIndex: 0 } : {}
  return (
    <span
      {...{ role: 'math', 'aria-label': source, 'data-math': dataMath, ...marked, ...focus }}
      // The HTML is safe, because KaTeX escapes all text. React elements of a formula would take several times as long.
      // biome-ignore lint/security/noDangerouslySetInnerHtml: without `trust`, KaTeX's HTML has only spans and paths
      dangerouslySetInnerHTML={{ __html: html }}
    />
  )
}

/** A link as text, with its URL if the text differs from it. */
function Address({ href, children, node }: Props<'a'>) {
  const address = decoded(String(href ?? ''))
  const only = node?.children.length === 1 ? node.children[0] : undefined
  const text = only?.type === 'text' ? only.value : null
  const isSame = text !== null && [text, `http://${text}`, `mailto:${text}`].includes(address)
  return (
    <span className="rollout-link">
      {children}
      {!isSame && (
        <span className="rollout-address">
          <MarkedText text={address} />
        </span>
      )}
    </span>
  )
}

/**
 * Decodes the percent escapes of a URL, because the Markdown parser escapes URLs. A malformed URL is returned
 * unchanged.
 */
function decoded(address: string): string {
  try {
    return decodeURI(address)
  } catch {
    return address
  }
}
