import { type PartitionSourceWorld, partitionSourceContract } from '@taskmaster/backup/testing';
import { sourceOf } from '@taskmaster/cli/testing';
import { connect } from '@taskmaster/client';
import { openEngine } from '@taskmaster/engine';
import { Refusal } from '@taskmaster/engine/domain';
import { SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { keptLog, SeededRandom, SimDisk } from '@taskmaster/engine/testing';
import { startNodeServer } from '@taskmaster/node/testing';
import { partitionOf } from '@taskmaster/proto';
import { createBackupService, encodedBackup } from '@taskmaster/server/grpc';

const PARTITIONS = 4;

/** A client of a server on a real engine. It uses real time, like the timeouts of the client. */
async function overGrpc(): Promise<PartitionSourceWorld> {
  await using opened = new AsyncDisposableStack();
  const store = new SimDisk({ random: new SeededRandom(1) }).open();
  opened.defer(() => store.close());
  const config = { partitions: PARTITIONS };
  const engine = await openEngine({ store, clock: new SystemClock(), random: systemRandom, log: keptLog(), config });
  opened.defer(() => engine.stop());
  let breaksNext = false;
  async function* broken(parts: ReturnType<typeof engine.backups.backup>) {
    const header = await parts.next();
    if (!header.done) yield header.value;
    await parts.return?.();
    throw new Refusal('PARTITION_MOVING', 'the partition moves');
  }
  const backup = encodedBackup((request, { signal }) => {
    const parts = engine.backups.backup(request, signal);
    const isBroken = breaksNext;
    breaksNext = false;
    return isBroken ? broken(parts) : parts;
  });
  const { port } = opened.use(await startNodeServer(engine, {}, undefined, [], [createBackupService(backup)]));
  const client = opened.use(await connect(`127.0.0.1:${port}`));
  const groups = Array.from({ length: 100 }, (_, number) => `group-${number}`);
  const first = groups.find((group) => partitionOf(group, PARTITIONS) === 0);
  const running = opened.move();
  return {
    source: sourceOf(client),
    partitions: PARTITIONS,
    addTask: async (pid) => void (await client.queue(`${first}#q`).enqueue({ pid, data: pid })),
    breakNextStream: () => {
      breaksNext = true;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

partitionSourceContract('the cluster behind a client', overGrpc);
