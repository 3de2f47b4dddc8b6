/**
 * The TaskMaster proxy: serves the same calls as a node, for the whole cluster.
 *
 * - `startProxy(settings)` → `RunningProxy`: serves gRPC and HTTP in this process, as the command `taskmaster-proxy` does.
 * - `Router` and `createRouterService` → the service itself, on any `Routes`, `Upstream`, clock and random source.
 */
export { completeProxyConfig, type ProxyConfig, type ProxyConfigInput } from './config.ts';
export { ProxyRefusedError } from './observed-routes.ts';
export { type RunningProxy, type StartProxyOptions, startProxy } from './proxy.ts';
export { createRouterService } from './router/router-service.ts';
export {
  DEFAULT_ROUTER_LIMITS,
  Router,
  type RouterDeps,
  type RouterFigures,
  type RouterLimits,
} from './router/routing/router.ts';
export type { Holder, RoutedNode, Routes } from './router/routing/routes.ts';
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
