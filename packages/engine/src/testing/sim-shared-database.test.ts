import { VirtualTime } from '../ports/virtual-clock.ts';
import { SeededRandom } from './seeded-random.ts';
import { sharedHoldersContract } from './shared-holders-contract.ts';
import { SimSharedDatabase } from './sim-shared-database.ts';

sharedHoldersContract('the simulated database', async () => {
  const time = new VirtualTime();
  const database = new SimSharedDatabase({ time, random: new SeededRandom(1), partitions: 4 });
  return {
    open: async (name) => database.open(name),
    run: (promise) => time.run(promise),
    [Symbol.asyncDispose]: async () => {},
  };
});
