/**
 * The TaskMaster proxy: the same service as a node's, for all nodes of a cluster.
 */
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
