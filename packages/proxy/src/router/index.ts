export { callService } from '../upstream/local-calls.ts';
export { NodePool } from '../upstream/node-pool.ts';
export {
  LostError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from '../upstream/upstream.ts';
export { Router, type RouterLimits } from './router.ts';
export { createRouterService } from './router-service.ts';
export type { Routes } from './routes.ts';
