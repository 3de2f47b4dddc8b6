// For tests of other packages: a simulated cluster, and a store on a real disk.

export { openRocksStore } from '../store/rocks-store.ts';
export { ALL_NODES, SimCluster, type SimNode } from './sim-cluster.ts';
