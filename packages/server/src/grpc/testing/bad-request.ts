import {
  type Method,
  type MethodHandlers,
  methods,
  type Reason,
  type ReplyOf,
  type RequestOf,
  type TaskMethodKey,
  taskMethodKeys,
} from '@taskmaster/proto';

/** The operations that every transport offers. */
export type Operations = MethodHandlers<TaskMethodKey>;

/** The operations over a transport. */
export function operationsOver(
  call: <Q extends object, R>(method: Method<Q, R>, request: Q) => Promise<R>,
): Operations {
  const operation = <K extends TaskMethodKey>(key: K) => {
    const { [key]: method } = methods;
    return [key, (request: RequestOf<K>): Promise<ReplyOf<K>> => call(method, request)];
  };
  return Object.fromEntries(taskMethodKeys.map(operation)) as Operations;
}

export interface BadRequest {
  readonly what: string;
  readonly reason: Reason;
  /** Path of the field at fault. */
  readonly field: string;
  readonly call: (node: Operations) => Promise<unknown>;
}

/** A request that every transport must refuse before it reaches the engine. */
export function bad(what: string, reason: Reason, field: string, call: BadRequest['call']): BadRequest {
  return { what, reason, field, call };
}
