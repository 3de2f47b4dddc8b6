// For tests of other packages: a simulated cluster, and a store on a real disk.

export { createHandlers } from '../service/handlers.ts';
export { createNodeService } from '../service/node-service.ts';
export { openRocksStore } from '../store/rocks-store.ts';
export { ALL_NODES, SimCluster, type SimNode } from './sim-cluster.ts';
export { startNodeServer } from './start-node-server.ts';
