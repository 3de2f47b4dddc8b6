import type { StreamResult } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import type { KnownUpdate } from './call-fields.ts';
import type { Caller } from './caller.ts';

/** Size limit of a reply, in bytes: below 4 MiB, the default limit of gRPC clients. A single task of any size always fits. */
export const REPLY_BYTES = 4 * 1024 * 1024 - 64 * 1024;

/** The client that opened a stream or made a call. */
export interface Origin {
  /** `host:port`. */
  readonly address: string;
  /** True if this node must not forward the call: a client or a router has sent it to the holder of its group. */
  readonly routed: boolean;
  /**
   * True if a router has passed the call on and its header was believed. So its connection carries the calls of other callers.
   * Every caller may ask for a routed call, but that relaxes nothing.
   */
  readonly forwarded: boolean;
  readonly access: CallerAccess;
}

/** The client that made a call with one request. */
export interface UnaryCaller extends Caller, Origin {
  /** The deadline of the caller, in ms since 1970. Infinity: none. */
  readonly deadline: number;
}

/** Serves one method: takes an encoded request, returns an encoded answer. Rejects with a `Refusal`; any other error is a bug. */
export type UnaryHandler = (request: Buffer, caller: UnaryCaller) => Promise<Uint8Array>;

/**
 * Serves one method with a streamed answer, in encoded messages. A message is created when it is requested. Rejects like a
 * `UnaryHandler`. `return` cancels the call.
 */
export type StreamingHandler = (request: Buffer, caller: UnaryCaller) => AsyncIterable<Uint8Array>;

/** An answer on a stream. An `encoded` answer has the number of its field in StreamResult. */
export type StreamReply =
  | Exclude<StreamResult['result'], undefined>
  | { readonly $case: 'encoded'; readonly field: number; readonly bytes: Uint8Array };

/** One call read from a stream. */
export type StreamOperation =
  | {
      readonly kind: 'update';
      readonly id: number;
      /** For the log, if it fails. Undefined: it could not be read. */
      readonly known?: KnownUpdate | undefined;
      /** Rejects like a `UnaryHandler`. */
      readonly run: (caller: Caller) => Promise<StreamReply>;
    }
  | {
      /** It may wait, and a message cancels it. */
      readonly kind: 'waiting';
      readonly method: 'LeaseTasks' | 'WaitForTasks' | 'ReadEvents';
      readonly id: number;
      /** Approximate memory that the call uses while it waits, in bytes. It does not keep its message. */
      readonly bytes: number;
      /** The span of the caller, as it says, for the log. */
      readonly traceparent?: string | undefined;
      readonly run: (caller: Caller) => Promise<StreamReply>;
    }
  | { readonly kind: 'cancel'; readonly id: number }
  /** The call names no operation. */
  | { readonly kind: 'none'; readonly id: number };

/** Serves the calls of one stream. */
export interface StreamSession {
  /** Reads the calls of a message. Throws a `Refusal` if it cannot be read. */
  read(message: Buffer): readonly StreamOperation[];
  /** `held` is true while the client has too many unread answers, so that no more answers should be fetched. */
  hold(held: boolean): void;
  /** Called when the client no longer waits for answers. */
  close(): void;
}

/** The TaskMaster service of a node or a proxy, in encoded messages and independent of transports. */
export interface RawService {
  /** Handlers by the name of the method. */
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  openStream(origin: Origin): StreamSession;
}
