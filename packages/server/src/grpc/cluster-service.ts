import {
  ClusterServiceService,
  type DrainMemberRequest,
  type DrainMemberResponse,
  type ListMembersRequest,
  type ListMembersResponse,
  type ListPartitionsRequest,
  type ListPartitionsResponse,
  type RemoveMemberRequest,
  type RemoveMemberResponse,
} from '@taskmaster/proto';
import { Refusal } from '../domain/refusal.ts';
import type { UnaryCaller } from '../service/raw-service.ts';
import { unaryMethod } from '../service/unary-method.ts';
import type { UnaryService } from './unary-service.ts';

/** The handlers of the cluster service; see cluster.proto. */
export interface ClusterHandlers {
  listMembers(request: ListMembersRequest): Promise<ListMembersResponse>;
  listPartitions(request: ListPartitionsRequest): Promise<ListPartitionsResponse>;
  drainMember(request: DrainMemberRequest): Promise<DrainMemberResponse>;
  removeMember(request: RemoveMemberRequest): Promise<RemoveMemberResponse>;
}

export const CLUSTER_SERVICE = 'taskmaster.v1.ClusterService';

/** The cluster service of a node. `handlers` returns undefined while the node belongs to no cluster. */
export function createClusterService(handlers: () => ClusterHandlers | undefined): UnaryService {
  const { listMembers, listPartitions, drainMember, removeMember } = ClusterServiceService;
  const present = (): ClusterHandlers => {
    const there = handlers();
    if (!there) throw new Refusal('NO_CLUSTER', 'this node belongs to no cluster: start it with --bootstrap or --join');
    return there;
  };
  const managed = async <R>({ access }: UnaryCaller, run: (handlers: ClusterHandlers) => Promise<R>): Promise<R> => {
    access.requireCluster('manage-cluster');
    return run(present());
  };
  return {
    name: CLUSTER_SERVICE,
    unary: {
      ListMembers: unaryMethod(listMembers, (request) => present().listMembers(request)),
      ListPartitions: unaryMethod(listPartitions, (request) => present().listPartitions(request)),
      DrainMember: unaryMethod(drainMember, (request, caller) =>
        managed(caller, (handlers) => handlers.drainMember(request)),
      ),
      RemoveMember: unaryMethod(removeMember, (request, caller) =>
        managed(caller, (handlers) => handlers.removeMember(request)),
      ),
    },
  };
}
