import { Session } from 'node:inspector/promises';
import { connect } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { TestNode } from '../client/support/test-node.ts';
import { productSources } from './product-sources.ts';

/** The forms that an enqueue takes between the command line and the disk. */
const FORMS = [
  ['packages/cli/src/input/task-flags.ts', 'interface TaskFlags'],
  ['packages/client/src/tasks/new-task.ts', 'interface TaskOptions'],
  ['packages/proto/taskmaster/v1/tasks.proto', 'message Enqueue'],
  ['packages/engine/src/domain/commands.ts', 'interface EnqueueItem'],
  ['packages/engine/src/domain/task.ts', 'interface TaskState'],
  ['packages/engine/src/domain/atom.ts', 'type TaskChange'],
  ['packages/engine/src/domain/atom-codec.ts', 'function writeAtom'],
] as const;
const MOST_FORMS = 7;

/** It is not on the way: what the check of a load remembers of the enqueues that were made. */
const ELSEWHERE = 'packages/cli/src/load/verify/history.ts EnqueueCall';

/** Only hands the request on. */
const PASSES = 'hands it on';

/** The files through which an enqueue goes to the store, in order, and what each does with it. */
const PATH: readonly (readonly [file: string, does: string])[] = [
  ['packages/client/src/api/queue.ts', 'reads the options'],
  ['packages/client/src/tasks/new-task.ts', 'encodes the data'],
  ['packages/client/src/calls/update-joiner.ts', 'joins updates of one turn'],
  ['packages/client/src/calls/retrying-calls.ts', 'repeats it'],
  ['packages/client/src/transport/grpc-transport.ts', 'chooses the connection'],
  ['packages/client/src/transport/request-stream.ts', 'makes it a call of the stream, and writes to it'],
  ['packages/proto/src/stream/call-stream.ts', 'joins calls into messages'],
  ['packages/server/src/grpc/receiving/received-call.ts', 'bounds what is received'],
  ['packages/server/src/grpc/request-stream.ts', 'bounds and answers calls'],
  ['packages/node/src/service/node-service.ts', 'decodes it, and takes its turn'],
  ['packages/node/src/service/updates.ts', 'checks it, asks for rights, and replies'],
  ['packages/engine/src/operations/update-tasks.ts', 'admits it, and reads what it needs'],
  ['packages/engine/src/operations/decide.ts', 'decides it in one turn'],
  ['packages/engine/src/operations/plan-update.ts', 'what its items change'],
  ['packages/engine/src/operations/task-draft.ts', 'the changes so far'],
  ['packages/engine/src/engine-state.ts', 'changes memory'],
  ['packages/engine/src/log/commit-log.ts', 'groups atoms'],
  ['packages/engine/src/domain/atom-codec.ts', 'the entry in the log'],
];
const MOST_FILES = 18;
const MOST_PASSING = 0;

/** What runs in these folders for an enqueue is on the path, or is asked on the way. */
const FLOW =
  /^packages\/(client\/src\/(api|calls|tasks|transport)\/|server\/src\/grpc\/|node\/src\/service\/|engine\/src\/((operations|log)\/|[\w-]+\.ts$))/;
const ASKED = [
  'packages/client/src/calls/update-request.ts',
  'packages/client/src/tasks/context.ts',
  'packages/client/src/tasks/given-fields.ts',
  'packages/client/src/tasks/update.ts',
  'packages/client/src/transport/connection.ts',
  'packages/client/src/transport/endpoint-pool.ts',
  'packages/client/src/transport/holder-routes.ts',
  'packages/client/src/transport/holder-table.ts',
  'packages/client/src/transport/request-size.ts',
  'packages/client/src/transport/silence-watch.ts',
  'packages/client/src/transport/timing.ts',
  'packages/server/src/grpc/stream-results.ts',
  'packages/server/src/grpc/unread-replies.ts',
  'packages/node/src/service/one-group.ts',
  'packages/node/src/service/parse-links.ts',
  'packages/node/src/service/parse-retry.ts',
  'packages/node/src/service/reply/build-reply.ts',
  'packages/engine/src/admission.ts',
  'packages/engine/src/background.ts',
  'packages/engine/src/engine.ts',
  'packages/engine/src/holdings.ts',
  'packages/engine/src/last-attempts.ts',
  'packages/engine/src/open-engine.ts',
  'packages/engine/src/planned-atom.ts',
  'packages/engine/src/sweeps.ts',
  'packages/engine/src/operations/attempts.ts',
  'packages/engine/src/operations/backlog.ts',
  'packages/engine/src/operations/keys/items-by-key.ts',
  'packages/engine/src/operations/limits.ts',
  'packages/engine/src/operations/ends/keep-out.ts',
  'packages/engine/src/log/age-histogram.ts',
  'packages/engine/src/log/atom-rows.ts',
  'packages/engine/src/log/log-tails.ts',
  'packages/engine/src/log/queue-ledger.ts',
];

/** On a busy machine timers, as of silent connections, fire during enqueues: then more enqueues tell what belongs to each. */
const ENQUEUES = { least: 5, most: 300 };

const isUnknown = (file: string): boolean =>
  FLOW.test(file) && !PATH.some(([known]) => known === file) && !ASKED.includes(file);

/** The product files whose functions run during each of several enqueues over gRPC, as V8 counts them. */
async function filesOfEachEnqueue(): Promise<ReadonlySet<string>> {
  await using node = await TestNode.start();
  await using client = await connect(node.endpoint);
  const queue = client.queue<string>('g#q');
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await queue.enqueue('the first makes the queue');
  let common: ReadonlySet<string> | undefined;
  for (let run = 1; run <= ENQUEUES.most; run++) {
    await session.post('Profiler.takePreciseCoverage');
    await queue.enqueue('x');
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const ran = result
      .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
      .map(({ url }) => /packages\/\w+\/src\/.*/.exec(url)?.[0] ?? '')
      // On a busy machine the timers of sweeps fire during each of the enqueues.
      .filter((file) => !/\/(testing\/|sweep-[\w-]+\.ts$)/.test(file));
    common = new Set(ran.filter((file) => common?.has(file) ?? true));
    if (run >= ENQUEUES.least && !ran.some((file) => common?.has(file) && isUnknown(file))) break;
  }
  await session.post('Profiler.stopPreciseCoverage');
  session.disconnect();
  return common ?? new Set();
}

describe('an enqueue', () => {
  test('takes few forms', async () => {
    const sources = await productSources();
    for (const [file, form] of FORMS) expect(sources.get(file), `${file} has no ${form}`).toContain(form);
    const found: string[] = [];
    for (const [file, text] of sources) {
      for (const [, name = '', body = ''] of text.matchAll(
        /\b(?:interface|class) (\w+)[^{]*\{((?:[^{}]|\{[^{}]*\})*)\}/g,
      )) {
        const has = (field: RegExp): boolean => field.test(body);
        if (has(/\b(delay|delayMs)\??:/) && has(/\b(runAt|runAtUnixMs|mode)\??:/) && has(/\b(key|pid)\??:/)) {
          found.push(`${file} ${name}`);
        }
      }
    }
    const known = FORMS.map(([file, form]) => `${file} ${form.split(' ').at(-1)}`);
    const further = found.filter((one) => !known.includes(one) && one !== ELSEWHERE);
    expect(further, 'further forms of an enqueue').toEqual([]);
    expect(found).toContain(known[3]);
    expect(FORMS.length).toBeLessThanOrEqual(MOST_FORMS);
  });

  test('goes through few files, and few only hand it on', async () => {
    const ran = await filesOfEachEnqueue();
    const gone = PATH.filter(([file]) => !ran.has(file));
    expect(gone, 'not on the way any more').toEqual([]);
    expect([...ran].filter(isUnknown), 'say what they do with an enqueue').toEqual([]);
    expect(PATH.length).toBeLessThanOrEqual(MOST_FILES);
    expect(PATH.filter(([, does]) => does === PASSES).length).toBeLessThanOrEqual(MOST_PASSING);
  });
});
