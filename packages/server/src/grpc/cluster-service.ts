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
import type { Log } from '../ports/log.ts';
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
export function createClusterService(handlers: () => ClusterHandlers | undefined, log: Log): UnaryService {
  const { listMembers, listPartitions, drainMember, removeMember } = ClusterServiceService;
  const present = (): ClusterHandlers => {
    const there = handlers();
    if (!there) throw new Refusal('NO_CLUSTER', 'this node belongs to no cluster: start it with --bootstrap or --join');
    return there;
  };
  /** Every request that changes the cluster is logged with its caller, also if it is refused. */
  const managed = async <R>(call: string, request: object, caller: UnaryCaller, run: () => Promise<R>): Promise<R> => {
    const { address, access } = caller;
    const details = { call, caller: address, principal: access.principal, request };
    try {
      access.requireCluster('manage-cluster');
    } catch (error) {
      log.warn(
        { ...details, reason: error instanceof Refusal ? error.reason : 'INTERNAL' },
        'refused a change of the cluster',
      );
      throw error;
    }
    log.warn(details, 'a caller changes the cluster');
    return run();
  };
  return {
    name: CLUSTER_SERVICE,
    unary: {
      ListMembers: unaryMethod(listMembers, (request) => present().listMembers(request)),
      ListPartitions: unaryMethod(listPartitions, (request) => present().listPartitions(request)),
      DrainMember: unaryMethod(drainMember, (request, caller) =>
        managed('DrainMember', request, caller, async () => present().drainMember(request)),
      ),
      RemoveMember: unaryMethod(removeMember, (request, caller) =>
        managed('RemoveMember', request, caller, async () => present().removeMember(request)),
      ),
    },
  };
}
