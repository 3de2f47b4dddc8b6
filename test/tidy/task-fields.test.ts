import { expect, test } from 'vitest';
import { productSources } from './product-sources.ts';

/**
 * What a task is given when it is enqueued and keeps as it is, is one object from the parser to the reply (`TaskGiven`), and one
 * group of options in the client and the command line. So a new optional field is named in the three .proto files, limits, the
 * check, the type, the codec, the reply, the client (what is given, and the leased task) and the command line (flag and view).
 */
const MOST_FILES = 12;

/** An optional field of a task: the time limit of its attempts. */
const NAME = /time_?limit/i;

/** Files of the setting of queues with the same name. */
const SETTING = [
  'packages/proto/taskmaster/v1/queues.proto',
  'packages/node/src/service/handlers/parse-settings.ts',
  'packages/engine/src/domain/queue-settings.ts',
  'packages/client/src/api/queue-settings.ts',
  'packages/cli/src/commands/queues/settings.ts',
  'packages/cli/src/views/settings-view.ts',
];

/** Files of what the time limit does: it ends attempts, their leases and their work. */
const EFFECT = [
  'packages/engine/src/domain/commands.ts',
  'packages/engine/src/operations/attempts.ts',
  'packages/engine/src/operations/plan-update.ts',
  'packages/engine/src/leasing/grant-leases.ts',
  'packages/client/src/index.ts',
  'packages/client/src/values/duration.ts',
  'packages/client/src/values/errors.ts',
  'packages/client/src/leases/lease.ts',
  'packages/client/src/tasks/lease-tasks.ts',
  'packages/cli/src/commands/exec-loop.ts',
  'packages/cli/src/load/verify/history.ts',
];

/** The checksum of requests knows it by an earlier name. */
const EARLIER_NAME = ['packages/engine/src/requests/request-fingerprint.ts'];

test('few files carry an optional field of a task', async () => {
  const naming = [...(await productSources())].filter(([, text]) => NAME.test(text)).map(([file]) => file);
  const others = [...SETTING, ...EFFECT, ...EARLIER_NAME];
  const gone = others.filter((file) => !naming.includes(file));
  expect(gone, 'these files no longer name it: take them from the lists').toEqual([]);
  const carrying = naming.filter((file) => !others.includes(file)).sort();
  const problem = `${carrying.length} files carry the time limit of a task, at most ${MOST_FILES}: ${carrying.join(' ')}`;
  expect(carrying.length, `${problem}. Pass TaskGiven on whole instead of naming its fields`).toBeLessThanOrEqual(
    MOST_FILES,
  );
});
