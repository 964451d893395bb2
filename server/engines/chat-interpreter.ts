import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'
import { formatTime } from './template-time.ts'

/** Steps one rendering may take: a conversation of 1,000 turns takes some 50,000, and 500,000 are over in a second or two. */
const MAX_STEPS = 500_000
/** Longest text a template may make, in characters: far above the longest conversation taken. */
const MAX_CHARS = 64 * 2 ** 20
/** Longest list it may make. */
const MAX_ELEMENTS = 1_000_000
/** Longest list of numbers: a template counts turns, not characters. */
const MAX_RANGE = 100_000

/** A template as it was read: what {@link runProgram} takes. */
export type Program = Parameters<Interpreter['run']>[0]

/** Reads a template as the model libraries do (`trim_blocks`, `lstrip_blocks`; `{% generation %}` is passed over). @throws Error */
export function readProgram(source: string): Program {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }))
}

/**
 * Renders a template with those variables and what the model libraries add: `raise_exception`, `strftime_now`, `range`,
 * `namespace`. @throws Error with what the template raised, or that it takes too long
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

/** One that gives up: a template must not hold a worker's loop, nor fill its memory. */
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

/** Python's `range`, by which a template may make a list of any length in one step. */
function range(first: number, stop?: number, step = 1): number[] {
  const [from, to] = typeof stop === 'number' ? [first, stop] : [0, first]
  if (step === 0) throw new Error('range() step must not be zero')
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (!(count <= MAX_RANGE)) throw new Error(`range() of more than ${MAX_RANGE} numbers`)
  return Array.from({ length: count }, (_, i) => from + i * step)
}
