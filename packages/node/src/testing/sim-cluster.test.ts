import { encodeToBuffer, LeaseTasksRequest } from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { UnaryCaller } from '@taskmaster/server/calls';
import { aLease, type LifecycleWorld, LinkBrokenError, lifecycleContract } from '@taskmaster/server/testing';
import { SimCluster } from './sim-cluster.ts';

const LEASE = encodeToBuffer(LeaseTasksRequest, aLease({ waitMs: 60_000 }));
const CALLER: UnaryCaller = {
  address: 'sim:1',
  access: unlimitedAccess,
  routed: true,
  forwarded: true,
  gone: false,
  signal: undefined,
  deadline: Number.POSITIVE_INFINITY,
};

lifecycleContract('a simulated node', async (): Promise<LifecycleWorld> => {
  const cluster = new SimCluster();
  const node = cluster.add('a');
  const { network, time } = cluster;
  /** Calls the node, if it takes calls; resolves when it answers. */
  const lease = async (taken: () => void): Promise<Uint8Array> => {
    const carried = { from: 'client', to: 'a', what: 'LeaseTasks', timeoutMs: 600_000 };
    return network.carry(carried, async () => {
      taken();
      const handler = node.service?.unary.LeaseTasks;
      if (handler === undefined) throw new LinkBrokenError('the node serves nothing', false);
      return handler(LEASE, CALLER);
    });
  };
  return {
    start: () => node.start(),
    stop: () => node.stop(),
    accepts: () => {
      const { promise, resolve, reject } = Promise.withResolvers<boolean>();
      lease(() => resolve(true)).catch((error: unknown) => {
        if (error instanceof LinkBrokenError) resolve(false);
        else reject(error);
      });
      return promise;
    },
    call: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const answered = lease(resolve);
      answered.catch(() => {});
      return promise.then(() => ({ answered, finish: () => {} }));
    },
    settle: (promise) => time.run(promise),
    async [Symbol.asyncDispose]() {},
  };
});
