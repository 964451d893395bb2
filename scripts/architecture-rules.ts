/**
 * A layer of the code and the layers that it may import, as in ARCHITECTURE.md. A layer may always import itself.
 * `check-architecture.ts` checks the rules.
 */
export interface Layer {
  name: string
  /** Pattern of the layer's files, as paths from the root. A file belongs to the first layer that matches it. */
  files: RegExp
  imports: string[]
  /** Layers from which this layer may import only types. */
  types?: string[]
}

/** All layers of the server except the composition roots. */
const SERVER = [
  'http',
  'api',
  'queries',
  'background',
  'batches',
  'model-servers',
  'monitoring',
  'admin',
  'worker',
  'rewards',
  'planner',
  'cluster',
  'router',
  'engines',
  'isolation',
  'sandbox',
  'store',
  'shared',
  'contract',
]

const PRODUCT = [
  ...SERVER,
  ...[
    'app',
    'components',
    'cli',
    'clients',
    'math-verify',
    'roots',
    'tools',
    'generated',
    'config',
  ],
]

export const LAYERS: Layer[] = [
  // Tests and their helpers may import every layer. No other layer may import them.
  {
    name: 'tests',
    files:
      /\.test\.tsx?$|(^|\/)(testing|fixtures)\/|(^|\/)test-[^/]+\.ts$|^e2e\/|^testkit\/(chaos|engines|service)\//,
    imports: [...PRODUCT, 'testkit'],
  },
  {
    name: 'testkit',
    files: /^testkit\//,
    imports: ['contract', 'router', 'engines', 'shared', 'store'],
    types: ['api'],
  },
  {
    name: 'tools',
    files: /^(scripts|bench|examples)\/|^packages\/[^/]+$/,
    imports: [...SERVER, 'cli', 'clients', 'math-verify', 'generated', 'roots', 'testkit'],
  },
  // The CLI talks to the service over HTTP like any client.
  { name: 'cli', files: /^packages\/cli\//, imports: ['contract'] },
  // Trainers install the clients. Clients import only types from the server, so no server code runs in a trainer.
  { name: 'clients', files: /^packages\/client-/, imports: [], types: ['api', 'contract'] },
  // The port of Math-Verify is a package for other projects too, so it imports no other layer.
  { name: 'math-verify', files: /^packages\/math-verify\//, imports: [] },
  { name: 'config', files: /^[^/]+\.config\.m?[jt]s$/, imports: ['tools'] },
  { name: 'app', files: /^app\//, imports: ['components', 'contract'], types: ['api'] },
  { name: 'components', files: /^components\//, imports: ['contract'], types: ['api'] },
  // The composition roots connect the layers and contain no logic.
  {
    name: 'roots',
    files: /^server\/(service\/|((worker|sandbox)\/)?(main|start)\.ts$)/,
    imports: SERVER,
  },
  {
    name: 'http',
    files: /^server\/http\//,
    imports: [
      ...['api', 'queries', 'batches', 'admin', 'rewards', 'router', 'isolation', 'store'],
      ...['shared', 'contract'],
    ],
  },
  {
    name: 'api',
    files: /^server\/api\//,
    imports: [
      ...['queries', 'background', 'batches', 'model-servers', 'monitoring', 'admin', 'rewards'],
      ...['store', 'shared', 'contract'],
    ],
  },
  {
    name: 'queries',
    files: /^server\/queries\//,
    imports: [
      ...['batches', 'monitoring', 'planner', 'rewards', 'cluster', 'router', 'store'],
      ...['shared', 'contract'],
    ],
  },
  {
    name: 'background',
    files: /^server\/background\//,
    imports: ['batches', 'cluster', 'store', 'shared', 'contract'],
  },
  {
    name: 'batches',
    files: /^server\/batches\//,
    imports: ['admin', 'rewards', 'router', 'store', 'shared', 'contract'],
  },
  {
    name: 'model-servers',
    files: /^server\/model-servers\//,
    imports: ['router', 'store', 'shared', 'contract'],
  },
  {
    name: 'monitoring',
    files: /^server\/monitoring\//,
    imports: ['router', 'store', 'shared', 'contract'],
  },
  { name: 'admin', files: /^server\/admin\//, imports: ['store', 'shared', 'contract'] },
  {
    name: 'worker',
    files: /^server\/worker\//,
    imports: ['rewards', 'cluster', 'router', 'store', 'shared', 'contract'],
  },
  {
    name: 'cluster',
    files: /^server\/cluster\//,
    imports: ['router', 'store', 'shared', 'contract'],
  },
  {
    name: 'rewards',
    files: /^server\/rewards\//,
    imports: ['math-verify', 'router', 'isolation', 'shared', 'contract'],
  },
  { name: 'router', files: /^server\/router\//, imports: ['engines', 'shared', 'contract'] },
  { name: 'engines', files: /^server\/engines\//, imports: ['shared', 'contract'] },
  {
    name: 'sandbox',
    files: /^server\/sandbox\//,
    imports: ['isolation', 'shared', 'contract'],
  },
  { name: 'isolation', files: /^server\/isolation\//, imports: ['shared', 'contract'] },
  { name: 'generated', files: /^server\/store\/generated\//, imports: [] },
  { name: 'store', files: /^server\/store\//, imports: ['generated', 'shared', 'contract'] },
  { name: 'contract', files: /^server\/contract\//, imports: [] },
  { name: 'planner', files: /^server\/planner\//, imports: ['shared', 'contract'] },
  { name: 'shared', files: /^server\/[^/]+\.ts$/, imports: ['contract'] },
]

/** Files that may read the environment. All other code receives a `Config`. */
export const READS_ENVIRONMENT =
  /^(server|packages\/cli)\/config\.ts$|^components\/url\/base-path\.ts$|^packages\/pack\.ts$|^(scripts|bench|examples|e2e|testkit)\/|\/testing\/|\.test\.tsx?$|^[^/]+\.config\.m?[jt]s$/
