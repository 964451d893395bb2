import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'
import { formatTime } from './template-time.ts'

/** Steps per rendering. A conversation of 1,000 turns takes about 50,000; 500,000 take a second or two. */
const MAX_STEPS = 500_000
/** Longest text that a template may produce, in characters: far above the longest accepted conversation. */
const MAX_CHARS = 64 * 2 ** 20
/** Longest list that a template may produce. */
const MAX_ELEMENTS = 1_000_000
/** Longest `range`: templates count turns, not characters. */
const MAX_RANGE = 100_000

/** A parsed template, for {@link runProgram}. */
export type Program = Parameters<Interpreter['run']>[0]

/**
 * Parses a template with the settings of the model libraries: `trim_blocks`, `lstrip_blocks`, and `{% generation %}` is
 * ignored. @throws Error
 */
export function readProgram(source: string): Program {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }))
}

/**
 * Renders a template with the given variables and those that the model libraries add: `raise_exception`,
 * `strftime_now`, `range`, `namespace`. @throws Error with the message that the template raised, or because a limit is
 * exceeded
 */
export function runProgram(
  program: Program,
  variables: Record<string, unknown>,
  now: () => Date,
): string {
  const environment = new Environment()
  const globals: Record<string, unknown> = {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    raise_exception: (message: unknown) => {
      throw new Error(String(message))
    },
    strftime_now: (format: unknown) => formatTime(now(), String(format)),
    range,
  }
  for (const [name, value] of Object.entries({ ...globals, ...variables })) {
    environment.set(name, value)
  }
  return String(new BoundedInterpreter(environment).run(program).value)
}

/** An interpreter with limits, so that a template can neither block a worker's event loop nor fill its memory. */
class BoundedInterpreter extends Interpreter {
  #steps = 0

  override evaluate(
    ...step: Parameters<Interpreter['evaluate']>
  ): ReturnType<Interpreter['evaluate']> {
    if (++this.#steps > MAX_STEPS) throw new Error('the template takes too long')
    const result = super.evaluate(...step)
    const made: unknown = result.value
    if (typeof made === 'string' ? made.length > MAX_CHARS : tooLongList(made)) {
      throw new Error('the template makes too long a text or list')
    }
    return result
  }
}

function tooLongList(made: unknown): boolean {
  return Array.isArray(made) && made.length > MAX_ELEMENTS
}

/** Python's `range`. It is limited because a template could create a list of any length in one step. */
function range(first: number, stop?: number, step = 1): number[] {
  const [from, to] = typeof stop === 'number' ? [first, stop] : [0, first]
  if (step === 0) throw new Error('range() step must not be zero')
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (!(count <= MAX_RANGE)) throw new Error(`range() of more than ${MAX_RANGE} numbers`)
  return Array.from({ length: count }, (_, i) => from + i * step)
}
