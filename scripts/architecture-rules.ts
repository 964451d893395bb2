/**
 * Who may import whom: the arrows of ARCHITECTURE.md, as data. `check-architecture.ts` holds the code to
 * them. A layer may always import itself.
 */
export interface Layer {
  name: string
  /** Files of the layer, as paths from the root. The first layer that matches a file has it. */
  files: RegExp
  /** Layers it may import, types and values. */
  imports: string[]
  /** Layers it may import the types of. */
  types?: string[]
}

/** Every layer beneath the composition roots. */
const SERVER = [
  'http',
  'api',
  'loop',
  'worker',
  'rewards',
  'planner',
  'fleet',
  'router',
  'engines',
  'store',
  'shared',
  'wire',
]

export const LAYERS: Layer[] = [
  // Tests, and what only tests use, may import anything; nothing else may import them.
  {
    name: 'tests',
    files: /\.test\.tsx?$|(^|\/)(testing|fixtures)\/|(^|\/)test-[^/]+\.ts$|^e2e\//,
    imports: [
      ...SERVER,
      ...['app', 'components', 'cli', 'clients', 'roots', 'tools', 'generated', 'config'],
      'testkit',
    ],
  },
  // What tests and measures the product from outside. Nothing else may import it.
  {
    name: 'testkit',
    files: /^testkit\//,
    imports: [
      ...SERVER,
      ...['app', 'components', 'cli', 'clients', 'roots', 'tools', 'tests', 'generated', 'config'],
    ],
  },
  {
    name: 'tools',
    files: /^(scripts|bench|examples)\//,
    imports: [...SERVER, 'cli', 'clients', 'generated', 'roots'],
  },
  // Speaks to the service over HTTP, as anybody does: of the server it knows what travels.
  { name: 'cli', files: /^cli\//, imports: ['wire'] },
  // What a trainer installs: of the server types alone, so that nothing of it runs there.
  { name: 'clients', files: /^clients\//, imports: [], types: ['api', 'wire'] },
  { name: 'config', files: /^[^/]+\.config\.m?[jt]s$/, imports: ['tools'] },
  { name: 'app', files: /^app\//, imports: ['components', 'wire'], types: ['api'] },
  { name: 'components', files: /^components\//, imports: ['wire'], types: ['api'] },
  // The composition roots: they wire everything together, and hold no logic.
  { name: 'roots', files: /^server\/(service\/|(worker\/)?(main|start)\.ts$)/, imports: SERVER },
  {
    name: 'http',
    files: /^server\/http\//,
    imports: ['api', 'loop', 'rewards', 'fleet', 'router', 'store', 'shared', 'wire'],
  },
  {
    name: 'api',
    files: /^server\/api\//,
    imports: ['loop', 'rewards', 'router', 'store', 'shared', 'wire'],
  },
  {
    name: 'loop',
    files: /^server\/loop\//,
    imports: ['rewards', 'planner', 'fleet', 'router', 'store', 'shared', 'wire'],
  },
  {
    name: 'worker',
    files: /^server\/worker\//,
    imports: ['rewards', 'fleet', 'router', 'store', 'shared', 'wire'],
  },
  // What feeds a router in any process: the registry read, limits leased, reports written.
  { name: 'fleet', files: /^server\/fleet\//, imports: ['router', 'store', 'shared', 'wire'] },
  { name: 'rewards', files: /^server\/rewards\//, imports: ['router', 'shared', 'wire'] },
  { name: 'router', files: /^server\/router\//, imports: ['engines', 'shared', 'wire'] },
  { name: 'engines', files: /^server\/engines\//, imports: ['shared', 'wire'] },
  // Prisma's types stop at the store.
  { name: 'generated', files: /^server\/store\/generated\//, imports: [] },
  { name: 'store', files: /^server\/store\//, imports: ['generated', 'shared', 'wire'] },
  { name: 'wire', files: /^server\/wire\//, imports: [] },
  // What an arrangement of rewards and training would come to, on a virtual clock.
  { name: 'planner', files: /^server\/planner\//, imports: ['wire'] },
  { name: 'shared', files: /^server\/[^/]+\.ts$/, imports: ['wire'] },
]

/** Where the environment may be read. Everybody else is handed a `Config`. */
export const READS_ENVIRONMENT =
  /^(server|cli)\/config\.ts$|^(scripts|bench|examples|e2e|testkit)\/|\/testing\/|\.test\.tsx?$|^[^/]+\.config\.m?[jt]s$/
