import type { RootContent } from 'hast'
import bash from 'highlight.js/lib/languages/bash'
import c from 'highlight.js/lib/languages/c'
import cpp from 'highlight.js/lib/languages/cpp'
import csharp from 'highlight.js/lib/languages/csharp'
import css from 'highlight.js/lib/languages/css'
import diff from 'highlight.js/lib/languages/diff'
import go from 'highlight.js/lib/languages/go'
import java from 'highlight.js/lib/languages/java'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import latex from 'highlight.js/lib/languages/latex'
import python from 'highlight.js/lib/languages/python'
import ruby from 'highlight.js/lib/languages/ruby'
import rust from 'highlight.js/lib/languages/rust'
import sql from 'highlight.js/lib/languages/sql'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import { createLowlight } from 'lowlight'

const lowlight = createLowlight({
  ...{
    bash,
    c,
    cpp,
    csharp,
    css,
    diff,
    go,
    java,
    javascript,
    json,
    latex,
    python,
    ruby,
    rust,
    sql,
  },
  ...{ typescript, xml, yaml },
})
lowlight.registerAlias({ python: ['python3', 'repl'], bash: ['shell', 'console'] })

interface Token {
  start: number
  end: number
  className: string | null
}

/** Splits code into tokens. Code in an unknown language is one token. */
export function tokensOf(code: string, language: string): Token[] {
  const known = language.toLowerCase()
  if (!lowlight.registered(known)) return [{ start: 0, end: code.length, className: null }]
  const tokens: Token[] = []
  let at = 0
  const walk = (nodes: readonly RootContent[], className: string | null) => {
    for (const node of nodes) {
      if (node.type === 'text') {
        const end = at + node.value.length
        const before = tokens.at(-1)
        if (before?.className === className) before.end = end
        else tokens.push({ start: at, end, className })
        at = end
      } else if (node.type === 'element') {
        const own = node.properties.className
        walk(node.children, Array.isArray(own) ? String(own[0]) : className)
      }
    }
  }
  walk(lowlight.highlight(known, code).children, null)
  return tokens
}
