import { ItemKind, type Error as WireError } from '@taskmaster/proto';
import type { TaskMasterError } from '../values/errors.ts';

const itemKinds = {
  enqueue: ItemKind.ITEM_KIND_ENQUEUE,
  dequeue: ItemKind.ITEM_KIND_DEQUEUE,
  renew: ItemKind.ITEM_KIND_RENEW,
  release: ItemKind.ITEM_KIND_RELEASE,
  unknown: ItemKind.ITEM_KIND_UNSPECIFIED,
} as const;

/** An error as it travels in a batch or a stream. */
export function wireError(error: TaskMasterError): WireError {
  return {
    code: error.code,
    reason: error.reason,
    message: error.message,
    metadata: { ...error.metadata },
    retryDelayMs: error.retryDelayMs ?? 0,
    items: error.items.map((item) => ({ ...item, kind: itemKinds[item.kind], key: item.key ?? '' })),
  };
}
