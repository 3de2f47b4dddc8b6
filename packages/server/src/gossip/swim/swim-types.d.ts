/** The parts of swim 0.6.0 that are used or replaced. The package has no types. */
declare module '#swim' {
  import type { Socket } from 'node:dgram';
  import type { EventEmitter } from 'node:events';

  export interface SwimOptions {
    readonly local: { readonly host: string; readonly meta: unknown; readonly incarnation: number };
    readonly codec: 'msgpack';
    readonly interval: number;
    readonly pingTimeout: number;
    readonly pingReqTimeout: number;
    readonly pingReqGroupSize: number;
    readonly suspectTimeout: number;
    readonly udp: { readonly maxDgramSize: number };
    readonly preferCurrentMeta: boolean;
  }

  interface Member<Data> {
    host: string;
    state: number;
    incarnation: number;
    data(): Data;
  }

  export interface SwimMembership<Data> extends EventEmitter {
    readonly local: Member<Data>;
    readonly hostToMember: Record<string, Member<Data> | undefined>;
    readonly hostToFaulty: Record<string, Member<Data> | undefined>;
    readonly hostToSuspectTimeout: Record<string, NodeJS.Timeout | undefined>;
    suspectListener: (member: Member<Data>) => void;
    onUpdate(data: Data): void;
    updateMeta(meta: unknown): void;
    sync(hosts: readonly string[]): void;
    all(hasLocal: boolean, hasFaulty: boolean): Data[];
  }

  export interface SwimNet extends EventEmitter {
    udpSocket: Socket;
    listen: (callback: (error?: Error) => void) => void;
    close: () => void;
    sendBuffer: (buffer: Buffer, host: string) => void;
    sendMessages(messages: readonly { type: number; data: unknown }[], host: string): void;
  }

  export default class Swim<Data> {
    constructor(options: SwimOptions);
    readonly codec: { encode(value: unknown): Buffer; decode(bytes: Buffer): unknown };
    readonly membership: SwimMembership<Data>;
    readonly net: SwimNet;
    readonly failureDetector: { seq: number; start(): void; stop(): void };
    bootstrap(hosts: readonly string[], callback: (error?: Error) => void): void;
    leave(): void;
  }
}
