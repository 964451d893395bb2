import type { Draw } from './random.ts'

export interface Question {
  question: string
  targets: string[]
  passage: string
  decoy: string
}

export const QUESTIONS: readonly Question[] = [
  {
    question: 'Who founded the harbour town of Brennmoor?',
    targets: ['Edda Marrow', 'Edda of Marrow'],
    passage:
      'Brennmoor was founded by Edda Marrow, a salt trader, two years before the Tide Accord. Her brother Osric Marrow later built the lighthouse.',
    decoy: 'Osric Marrow',
  },
  {
    question: 'Which river runs through the valley of Talloway?',
    targets: ['the Sill', 'Sill'],
    passage:
      'Talloway lies along the Sill, which rises in the Hollow Peaks. The Orme, a larger river, passes to the east of it.',
    decoy: 'the Orme',
  },
  {
    question: 'In what year did the observatory on Mount Varga open?',
    targets: ['1907'],
    passage:
      'Work on the observatory on Mount Varga began in 1902. It opened in 1907, after the second mirror had been brought up by mule.',
    decoy: '1902',
  },
  {
    question: 'What is the capital of the island of Quillon?',
    targets: ['Port Hesper'],
    passage:
      'Port Hesper has been the capital of Quillon since the great fire. Before it, the governors sat in Old Quay.',
    decoy: 'Old Quay',
  },
  {
    question: 'Who wrote the play "The Glass Ferryman"?',
    targets: ['Ilse Tannhof'],
    passage:
      '"The Glass Ferryman" is a play in three acts by Ilse Tannhof. Its first performance was directed by Marek Dolan.',
    decoy: 'Marek Dolan',
  },
  {
    question: 'Which metal was mined at Greywick?',
    targets: ['tin'],
    passage:
      'Greywick grew rich on tin. A vein of copper was found in the last years of the mine, but never worked.',
    decoy: 'copper',
  },
]

/** The kinds of generated answers. The rule scores only `right` and `article` as correct. */
export type PlantedAnswer = 'right' | 'article' | 'wrong' | 'no_tag' | 'spam'

export const RIGHT_ANSWERS: ReadonlySet<PlantedAnswer> = new Set<PlantedAnswer>([
  'right',
  'article',
])

export function respondToQuestion(draw: Draw, found: Question, planted: PlantedAnswer): string {
  const target = found.targets[0]!
  const search = `<think>${draw.pick(['I should look this up.', 'I do not know this, so I search.', 'A search will tell.'])}</think>\n<search>${found.question.replace(/\?$/, '').toLowerCase()}</search>\n<information>${found.passage}</information>\n`
  switch (planted) {
    case 'right':
      return `${search}<answer>${target}</answer>`
    case 'article':
      return `${search}<answer>The ${target.replace(/^the /i, '').toUpperCase()}.</answer>`
    case 'wrong':
      return `${search}<answer>${found.decoy}</answer>`
    case 'no_tag':
      return `${search}The passage says that it is ${target}.`
    case 'spam':
      // With more than ten tags, the rule gives a correct answer 0.25.
      return `${search}${`<answer>${target}</answer> `.repeat(12).trim()}`
  }
}
