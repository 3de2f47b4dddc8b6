export { operationsOver } from '../grpc/testing/bad-request.ts';
export { badRequests } from '../grpc/testing/bad-requests.ts';
export { checkHealth, listServices, watchHealth } from '../grpc/testing/check-health.ts';
export { collectGarbage } from '../grpc/testing/collect-garbage.ts';
export { errorInfoOf, type GrpcClient, grpcClient } from '../grpc/testing/grpc-client.ts';
export {
  aBulkSpec,
  aDequeue,
  aFilter,
  aGet,
  aLease,
  aList,
  anEnqueue,
  anUpdate,
  aPeek,
  aRelease,
  aRenew,
  aRetry,
  aSchedule,
  aWait,
  bytes,
  someSchedules,
} from '../grpc/testing/requests.ts';
export { sampleBytes } from '../grpc/testing/sample-requests.ts';
export { SleepingClient } from '../grpc/testing/sleeping-client.ts';
export {
  grpcServerFor,
  noService,
  startServer,
  type TestServer,
  type TestServerOptions,
} from '../grpc/testing/start-server.ts';
export { waitingLeaseKeepsMessage } from '../grpc/testing/waiting-lease.ts';
export { accessFor } from './access-for.ts';
export { accessOf } from './access-of.ts';
export { FakeHost } from './fake-host.ts';
export { aliveOf, GossipBench } from './gossip-bench.ts';
export {
  type CallInFlight,
  type LifecycleWorld,
  lifecycleContract,
  lifecycleTimeoutContract,
} from './lifecycle-contract.ts';
export { type PeerWorld, peerContract } from './peer-contract.ts';
export { acceptsAt, freePort } from './ports.ts';
export { type RoutesWorld, routesContract } from './routes-contract.ts';
export { SimGossip, type SimMembership } from './sim-membership.ts';
export { type Arrival, CALM, LinkBrokenError, SimNetwork } from './sim-network.ts';
export { callPeersOver, type PeerPassage, type ServePeer, SimPeers, servePeer } from './sim-peers.ts';
