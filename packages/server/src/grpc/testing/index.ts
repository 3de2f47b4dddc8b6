// Servers and callers for tests of what stands in front of a node.

export { type BadRequest, badRequests, type Operations } from './bad-requests.ts';
export { checkHealth, listServices, watchHealth } from './check-health.ts';
export { type FakeEngine, fakeEngine } from './fake-engine.ts';
export { detailsOf, errorInfoOf, type GrpcClient, grpcClient } from './grpc-client.ts';
export * from './requests.ts';
export { SleepingClient } from './sleeping-client.ts';
export { type KeptLog, keptLog, startServer, type TestServer } from './start-server.ts';
export { waitingLeaseKeepsMessage } from './waiting-lease.ts';
