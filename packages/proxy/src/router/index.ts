export { callService, streamFromService } from '../upstream/local-calls.ts';
export { NodePool } from '../upstream/node-pool.ts';
export {
  type BackupUpstream,
  LostError,
  type RoutedPeer,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from '../upstream/upstream.ts';
export { createBackupForwarding, forwardBackups } from './backups.ts';
export { createRouterService } from './router-service.ts';
export { DEFAULT_ROUTER_LIMITS, Router, type RouterLimits } from './routing/router.ts';
export type { Routes } from './routing/routes.ts';
