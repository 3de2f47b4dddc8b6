/**
 * The TaskMaster proxy: the same service as a node's, for all nodes of a cluster.
 *
 * - `startProxy(settings)` → `RunningProxy`: serves gRPC and HTTP from this process; the command
 *   `taskmaster-proxy` does it.
 * - `Router` and `createRouterService` → the service itself, on any `Routes`, `Upstream`, clock and randomness.
 */
export { completeProxyConfig, type ProxyConfig, type ProxyConfigInput } from './config.ts';
export { ProxyRefusedError } from './observed-routes.ts';
export { type RunningProxy, type StartProxyOptions, startProxy } from './proxy.ts';
export {
  DEFAULT_ROUTER_LIMITS,
  Router,
  type RouterDeps,
  type RouterFigures,
  type RouterLimits,
} from './router/router.ts';
export { createRouterService } from './router/router-service.ts';
export type { Holder, RoutedNode, Routes } from './router/routes.ts';
export { NodePool } from './upstream/node-pool.ts';
export {
  type LossKind,
  LostError,
  RefusedError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from './upstream/upstream.ts';
