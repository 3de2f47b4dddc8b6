/**
 * The TaskMaster proxy: the same service as a node's, for all nodes of a cluster.
 *
 * - `startProxy(settings)` → `RunningProxy`: serves gRPC and HTTP from this process; the command
 *   `taskmaster-proxy` does it.
 * - `colocate({ own, routes, … })` → the same in front of a node, in one process, on one port.
 * - `Router` and `createRouterService` → the service itself, on any `Routes`, `Upstream`, clock and randomness.
 */
export { type Colocated, type ColocatedOptions, colocate } from './colocated.ts';
export { completeProxyConfig, type ProxyConfig, type ProxyConfigInput } from './config.ts';
export { NodePool } from './node-pool.ts';
export { ProxyRefused } from './observed-routes.ts';
export { type RunningProxy, type StartProxyOptions, startProxy } from './proxy.ts';
export { DEFAULT_ROUTER_LIMITS, Router, type RouterDeps, type RouterFigures, type RouterLimits } from './router.ts';
export { createRouterService } from './router-service.ts';
export type { Holder, RoutedNode, Routes } from './routes.ts';
export {
  type LossKind,
  Lost,
  Refused,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from './upstream.ts';
