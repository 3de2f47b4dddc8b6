import { BrokenStreamError, FakePartitions } from './fake-partitions.ts';
import { partitionSourceContract } from './partition-source-contract.ts';

partitionSourceContract('FakePartitions', async () => {
  const source = new FakePartitions(2);
  return {
    source,
    partitions: 2,
    addTask: async (pid) => source.add(0, pid),
    breakNextStream: () => {
      source.onMessage = () => {
        source.onMessage = () => {};
        throw new BrokenStreamError('the stream broke');
      };
    },
    [Symbol.asyncDispose]: async () => {},
  };
});
