import { GossipBench } from '@taskmaster/server/testing';

/** A member in its own process, which tests pause and continue. Arguments: name, gossip address of a seed. */
const [, , name = '', seed = ''] = process.argv;
const bench = new GossipBench();
const self = { nodeId: `id-${name}`, name, role: 'node', rpcAddress: 'x:1', version: '0', stateVersion: 0 } as const;
const membership = await bench.openThread({ ...self, incarnation: 1 }, [seed], { hangAfterMs: 2000 });
process.on('message', () => process.send?.(membership.figures()));
process.on('disconnect', () => process.exit());
