// For tests of other packages: the contract suite of transports, and parts of real clients.

export { sourceOf } from '../cli/commands/backup-source.ts';
export { GrpcTransport } from '../transport/grpc-transport.ts';
export { transportContract } from './contracts/transport-contract.ts';
export type { TransportWorld } from './contracts/transport-world.ts';
