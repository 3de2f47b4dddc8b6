// What may import what. `depcruise packages test bench examples scripts` checks it by hand, test/tidy/imports.test.ts in
// the tests.

/** The packages that each package may import. ARCHITECTURE.md has them, too. */
export const PACKAGES = {
  node: ['proxy', 'postgres', 'engine', 'server', 'client', 'backup', 'proto'],
  proxy: ['server', 'engine', 'proto'],
  server: ['engine', 'console', 'proto'],
  postgres: ['engine', 'proto'],
  engine: ['backup', 'proto'],
  cli: ['node', 'outbox', 'client', 'backup', 'proto'],
  outbox: ['client', 'proto'],
  client: ['proto'],
  backup: ['proto'],
  console: ['proto'],
  proto: [],
};

/**
 * The folders of each package, from the top to the bottom: a folder imports only from folders below it. `root` is `src` itself.
 * Folders in a list of their own stand side by side, and import each other. ARCHITECTURE.md has them, too.
 */
export const LAYERS = {
  node: ['root', 'cli', 'http', 'kubernetes', 'cluster', 'service', 'store'],
  engine: [
    [
      'root',
      'partitions',
      'bulk',
      'schedules',
      'topics',
      'leasing',
      'waits',
      'events',
      'operations',
      'records',
      'requests',
      'queues',
      'pending',
    ],
    'log',
    'memory',
    'ports',
    'domain',
  ],
  proxy: ['root', 'cli', 'scaler', 'router', 'upstream'],
  server: ['program', 'http', 'grpc', 'calls', 'requests', 'access', 'tls', 'cluster-view', 'gossip', 'audit', 'ports'],
  cli: ['root', 'commands', 'load', 'session', 'input', 'views'],
  client: ['root', 'api', 'worker', 'tasks', 'telemetry', 'leases', 'calls', 'transport', 'values'],
  backup: ['root', 'create', 'read', 'places', 'format'],
};

/** Folders that do not import each other although one is above the other. */
const APART = [
  { from: 'packages/server/src/http', to: 'packages/server/src/grpc', why: 'HTTP and gRPC are independent ways in.' },
  ...['http', 'cluster'].map((folder) => ({
    from: `packages/node/src/${folder}`,
    to: 'packages/node/src/store',
    why: 'Only the files in src know the store; all others know its port, which is in the engine.',
  })),
];

/** `write-batch.ts` and `store.ts` import each other's types: they are one port in two files. */
const ONE_PORT = '^packages/engine/src/ports/(write-batch|store)[.]ts$';

const TEST = '[.]test[.]ts$';
const TEST_SUPPORT = '^packages/[^/]+/src/(testing|.+/testing|.+/fixtures)/|(^|/)test-support[.]ts$';
const NOT_PART_OF_A_PROGRAM = [TEST, TEST_SUPPORT];

/** The paths of the files of a layer. */
const filesOf = (name, layer) =>
  [layer]
    .flat()
    .map((folder) => (folder === 'root' ? `^packages/${name}/src/[^/]+$` : `^packages/${name}/src/${folder}/`));

const packageRules = Object.entries(PACKAGES).map(([name, allowed]) => ({
  name: `package-${name}`,
  comment: `${name} imports ${allowed.length === 0 ? 'no other package' : `of the packages only ${allowed.join(', ')}`}.`,
  severity: 'error',
  from: { path: `^packages/${name}/` },
  to: { path: '^packages/', pathNot: `^packages/(${[name, ...allowed].join('|')})/` },
}));

const layerRules = Object.entries(LAYERS)
  .flatMap(([name, layers]) =>
    layers.slice(1).map((layer, index) => ({
      name: `layer-${name}-${layer}`,
      comment: `${layer} stands below ${layers
        .slice(0, index + 1)
        .flat()
        .join(', ')} and imports none of them.`,
      severity: 'error',
      from: { path: filesOf(name, layer), pathNot: NOT_PART_OF_A_PROGRAM },
      // A command line starts its program, which is in src itself.
      to: {
        path: layers
          .slice(0, index + 1)
          .filter((above) => !(layer === 'cli' && above === 'root'))
          .flatMap((above) => filesOf(name, above)),
      },
    })),
  )
  .filter(({ to }) => to.path.length > 0);

const apartRules = APART.map(({ from, to, why }) => ({
  name: `apart-${from.split('/').at(-1)}-${to.split('/').at(-1)}`,
  comment: why,
  severity: 'error',
  from: { path: `^${from}/`, pathNot: NOT_PART_OF_A_PROGRAM },
  to: { path: `^${to}/` },
}));

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    ...packageRules,
    ...layerRules,
    ...apartRules,
    {
      name: 'server-without-engine',
      comment: 'What nodes and proxies share knows the words and the ports of the engine, not how it works.',
      severity: 'error',
      from: { path: '^packages/(server|proxy)/', pathNot: NOT_PART_OF_A_PROGRAM },
      to: { path: '^packages/engine/src/', pathNot: '^packages/engine/src/(domain|ports)/' },
    },
    {
      name: 'cli-without-node',
      comment: 'The command line is small, and installed without the node, which only its command dev loads.',
      severity: 'error',
      from: { path: '^packages/cli/', pathNot: '^packages/cli/src/commands/dev/' },
      to: { path: '^packages/node/' },
    },
    {
      name: 'memory-without-store',
      comment: 'A queue in memory loads nothing native.',
      severity: 'error',
      from: { path: '^packages/node/src/in-memory[.]ts$' },
      to: { path: '^packages/node/src/store/', reachable: true },
    },
    {
      name: 'known-folder',
      comment: 'Every folder of a package with layers has its place among them.',
      severity: 'error',
      from: {
        path: Object.keys(LAYERS).map((name) => `^packages/${name}/src/`),
        pathNot: [
          ...NOT_PART_OF_A_PROGRAM,
          ...Object.entries(LAYERS).flatMap(([name, layers]) => layers.flatMap((layer) => filesOf(name, layer))),
        ],
      },
      to: {},
    },
    {
      name: 'testing-folders',
      comment: 'Only tests and testing folders import testing folders.',
      severity: 'error',
      from: { path: '^packages/', pathNot: NOT_PART_OF_A_PROGRAM },
      to: { path: NOT_PART_OF_A_PROGRAM },
    },
    {
      name: 'no-cycles',
      comment: 'The files of one program import each other in one direction. A worker thread is a program of its own.',
      severity: 'error',
      from: {},
      to: { circular: true, via: { pathNot: ONE_PORT } },
    },
    {
      name: 'resolvable',
      comment: 'Every import leads to a file or an installed package.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    exclude: '(^|/)(dist|gen|node_modules|[.]snippets-[^/]*)/',
    // Types count too, and so do imports that exist only for them.
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['source', 'import', 'types', 'default'] },
  },
};
