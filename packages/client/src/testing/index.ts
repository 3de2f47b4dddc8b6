// For tests of other packages: the contract suite of transports, parts of real clients, faults and a time.

export { Renewer } from '../leases/renewer.ts';
export { GrpcTransport } from '../transport/grpc-transport.ts';
export { transportContract } from './contracts/transport-contract.ts';
export type { TransportWorld } from './contracts/transport-world.ts';
export { connectionLost, type Fault, overloaded } from './faults.ts';
export { ManualTiming } from './manual-timing.ts';
export { only } from './only.ts';
