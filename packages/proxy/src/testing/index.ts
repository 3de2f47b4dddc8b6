export { FixedRoutes } from './fixed-routes.ts';
export { watchRoutedStreams } from './routed-streams.ts';
export { type Command, memoryBoundsOf, readyLine, runCommand } from './run-command.ts';
