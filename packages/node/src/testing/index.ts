// What tests outside this package need: an engine on virtual time, and on a simulated disk or a real one.

export { Seal, type SealOptions } from '../cluster/gossip/seal.ts';
export type { SwimMember as GossipMember } from '../cluster/gossip/swim-member.ts';
export { Refusal, UpdateRefusal } from '../domain/errors.ts';
export type { Instant, Key, LeaseToken, PartitionId, Pid } from '../domain/ids.ts';
export type * from '../engine/commands.ts';
export type { EngineConfig } from '../engine/config.ts';
export { type Engine, openEngine } from '../engine/engine.ts';
export type { MemberMeta, Membership, Peer } from '../ports/membership.ts';
export { Family } from '../ports/store.ts';
export { openRocksStore } from '../store/rocks-store.ts';
export * from './engine-harness.ts';
export { aliveOf, FAST_TIMING, GossipBench } from './gossip-bench.ts';
export { SeededRandom } from './seeded-random.ts';
export { ALL_NODES, SimCluster, type SimClusterOptions, SimNode, type SimNodeOptions } from './sim-cluster.ts';
export { type Reachability, SimGossip, type SimGossipOptions, SimMembership } from './sim-membership.ts';
export { type Arrival, LinkBroken, SimNetwork, type Weather } from './sim-network.ts';
export { type DurableStep, SimDisk, type SimDiskOptions, type SimSpace } from './sim-store.ts';
export { settle, VirtualClock, VirtualTime } from './virtual-clock.ts';
