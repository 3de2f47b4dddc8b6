// For tests of other packages: a simulated cluster, a store on a real disk, and the parts of a client over an engine.

export { InProcessTransport } from '../in-process-transport.ts';
export { createHandlers } from '../service/handlers.ts';
export { createNodeService } from '../service/node-service.ts';
export { openRocksStore } from '../store/rocks-store.ts';
export { ALL_NODES, SimCluster, type SimNode } from './sim-cluster.ts';
export { startNodeServer } from './start-node-server.ts';
