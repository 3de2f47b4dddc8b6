export { createBackupService, encodedBackup } from './backup-service.ts';
export { type ChannelSecurity, plainChannels, secureChannels } from './channels/channel-credentials.ts';
export { CLUSTER_SERVICE, type ClusterHandlers, createClusterService } from './cluster-service.ts';
export { PeerNetwork } from './peers/peer-network.ts';
export { PeerSeal } from './peers/peer-seal.ts';
export { createPeerService } from './peers/peer-service.ts';
export { GrpcServer, type GrpcServerOptions } from './server.ts';
export type { StreamingService } from './server-streams/streaming-service.ts';
export type { UnaryService } from './unary-service.ts';
