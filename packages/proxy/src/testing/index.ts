export { FakeUpstream } from './fake-upstream.ts';
export { FixedRoutes } from './fixed-routes.ts';
export { watchRoutedStreams } from './routed-streams.ts';
export { type Command, memoryBoundsOf, readyLine, runCommand } from './run-command.ts';
export { scriptedService } from './scripted-service.ts';
export { type NetworkedUpstreamWorld, networkedUpstreamContract } from './upstream-contract.ts';
