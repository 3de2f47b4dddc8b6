import { Refusal } from '@taskmaster/engine/domain';
import {
  byMethodName,
  type ClusterMethodKey,
  clusterMethodKeys,
  type MethodHandlers,
  methods,
} from '@taskmaster/proto';
import { requireClusterRight } from '../calls/check-rights.ts';
import type { UnaryHandler } from '../calls/raw-service.ts';
import { unaryMethod } from '../calls/unary-method.ts';
import type { UnaryService } from './unary-service.ts';

/** The handlers of the cluster service; see cluster.proto. */
export type ClusterHandlers = MethodHandlers<ClusterMethodKey>;

export const CLUSTER_SERVICE = 'taskmaster.v1.ClusterService';

/** The cluster service of a node. `handlers` returns undefined while the node belongs to no cluster. */
export function createClusterService(handlers: () => ClusterHandlers | undefined): UnaryService {
  const present = (): ClusterHandlers => {
    const there = handlers();
    if (!there) throw new Refusal('NO_CLUSTER', 'this node belongs to no cluster: start it with --bootstrap or --join');
    return there;
  };
  const unary = <K extends ClusterMethodKey>(key: K): UnaryHandler => {
    const { [key]: method } = methods;
    return unaryMethod(method, async (request, { access }) => {
      requireClusterRight(access, method);
      return present()[key](request);
    });
  };
  return { name: CLUSTER_SERVICE, unary: byMethodName(clusterMethodKeys, unary) };
}
