import type { StreamResult } from '@taskmaster/proto';
import type { Caller } from './caller.ts';

/** The client that opened a stream or made a call. */
export interface Origin {
  /** `host:port`. */
  readonly address: string;
  /** A proxy or another node has chosen this node: it must not pass the calls on. */
  readonly routed: boolean;
}

/** The client that made a unary call. */
export interface UnaryCaller extends Caller, Origin {
  /** When the caller stops waiting for the answer, in ms since 1970; Infinity: never. */
  readonly deadline: number;
}

/** Answers one method, bytes to bytes. Rejects with a `Refusal`; anything else is a fault of ours. */
export type UnaryHandler = (request: Buffer, caller: UnaryCaller) => Promise<Uint8Array>;

/** An answer on a stream; one that is `encoded` has the number of its field in a StreamResult. */
export type StreamReply =
  | Exclude<StreamResult['result'], undefined>
  | { readonly $case: 'encoded'; readonly field: number; readonly bytes: Uint8Array };

/** One call read from a stream. */
export type StreamOperation =
  | {
      readonly kind: 'update';
      readonly id: number;
      /** Rejects like a `UnaryHandler`. */
      readonly run: (caller: Caller) => Promise<StreamReply>;
    }
  | {
      readonly kind: 'lease';
      readonly id: number;
      /** What it keeps in memory until it is answered, which may be for long: nothing of its message. About. */
      readonly bytes: number;
      readonly run: (caller: Caller) => Promise<StreamReply>;
    }
  | { readonly kind: 'cancel'; readonly id: number }
  /** It names no operation. */
  | { readonly kind: 'none'; readonly id: number };

/** What serves the calls of one stream. */
export interface StreamSession {
  /** The calls of a message. Throws a `Refusal` where it cannot be read. */
  read(message: Buffer): readonly StreamOperation[];
  /** Whether the client has so many unread answers that no more should be fetched for it. */
  hold(held: boolean): void;
  /** Called when the client no longer waits for answers. */
  close(): void;
}

/** The TaskMaster service as bytes, free of any transport: a node's own, or that of a proxy. */
export interface RawService {
  /** By the methods' names. */
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  openStream(origin: Origin): StreamSession;
}
