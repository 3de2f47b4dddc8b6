// For tests of other packages: the contract suite of transports, and the transport of real clients.

export { GrpcTransport } from '../transport/grpc-transport.ts';
export { type TransportWorld, transportContract } from './transport-contract.ts';
