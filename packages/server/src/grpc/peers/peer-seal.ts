import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { ReplayWindows } from '../../gossip/datagrams/replay-windows.ts';
import type { Admission } from '../unary-service.ts';

/** The header of the seal. Request: `run.channel.number.code`. Answer: `run.code`. Codes are in base64url. */
const SEAL_HEADER = 'taskmaster-seal';
/** The run in a request whose sender does not know the run of the node yet. */
const NO_RUN = '';
const ID_BYTES = 12;

const newId = (): string => randomBytes(ID_BYTES).toString('base64url');

/** A sealed call. */
export interface SealedCall {
  readonly run: string;
  /** Undefined if there are no keys. */
  readonly code: Buffer | undefined;
}

/** The result of checking an answer: it comes from a process with a key, answers this request, and names the run of the node. */
export type Proof = { readonly run: string } | 'forged';

/**
 * Proves that the messages between nodes come from processes with a key of the cluster, unaltered, once, and for this receiver.
 * Messages are not encrypted. The first key of a node seals its requests. An answer is sealed with the key of its request. All
 * keys are accepted. Without keys every message is accepted.
 *
 *  P1  Every start of a node is a run with a random id. A request names its run and has a number in its channel. So no request is
 *      served twice, by another node or by a later run, and clocks need not agree.
 *  P2  The first call to a run cannot know its id. It is refused with the id, and the caller calls again.
 *  P3  The seal of an answer or refusal covers the code of the request, so that it answers no other request.
 */
export class PeerSeal {
  readonly #keys: readonly string[];
  readonly #run = newId();
  readonly #heard = new ReplayWindows();

  constructor(keys: readonly string[]) {
    this.#keys = keys;
  }

  /** Opens a channel for the calls to one address. */
  channel(): SealedChannel {
    return new SealedChannel(this.#keys);
  }

  /** Decides whether a call is served, and seals its answer. */
  admit(method: string, request: Buffer, metadata: Metadata): Admission {
    if (this.#keys.length === 0) return {};
    const [header = ''] = metadata.get(SEAL_HEADER);
    const [run = '', channel = '', number = '', given = ''] = header.toString().split('.');
    const code = Buffer.from(given, 'base64url');
    const key = this.#keys.find((one) => isEqual(code, codeOfRequest(one, [run, channel, number, method], request)));
    if (key === undefined) return { refusal: wrongKey('the call is not sealed with a key of this cluster') };
    return { ...this.#problemOf(run, channel, number), sign: (...answer) => this.#sign(key, code, ...answer) };
  }

  #problemOf(run: string, channel: string, number: string): Pick<Admission, 'refusal'> {
    if (run !== this.#run) return { refusal: wrongKey('the call is sealed for another run of a node') };
    if (this.#heard.admit(channel, 0, 0, Number(number))) return {};
    return { refusal: wrongKey('the call has been made before') };
  }

  #sign(key: string, asked: Buffer, trailers: Metadata, status: number, body: Uint8Array): void {
    const code = codeOfAnswer(key, asked, [this.#run, String(status)], body);
    trailers.set(SEAL_HEADER, `${this.#run}.${code.toString('base64url')}`);
  }
}

/** Seals calls to one address and checks the answers. */
export class SealedChannel {
  readonly #keys: readonly string[];
  readonly #id = newId();
  #run = NO_RUN;
  #number = 0;

  constructor(keys: readonly string[]) {
    this.#keys = keys;
  }

  seal(method: string, request: Buffer, metadata: Metadata): SealedCall {
    const [key] = this.#keys;
    const run = this.#run;
    if (key === undefined) return { run, code: undefined };
    const number = String(++this.#number);
    const code = codeOfRequest(key, [run, this.#id, number, method], request);
    metadata.set(SEAL_HEADER, `${run}.${this.#id}.${number}.${code.toString('base64url')}`);
    return { run, code };
  }

  /** Checks an answer. The `body` of a refusal are its details. */
  check({ run, code: asked }: SealedCall, status: number, body: Uint8Array, trailers: Metadata): Proof {
    if (asked === undefined) return { run };
    const [header = ''] = trailers.get(SEAL_HEADER);
    const [answering = '', given = ''] = header.toString().split('.');
    const code = Buffer.from(given, 'base64url');
    const isGenuine = this.#keys.some((key) => {
      return isEqual(code, codeOfAnswer(key, asked, [answering, String(status)], body));
    });
    if (!isGenuine) return 'forged';
    this.#run = answering;
    return { run: answering };
  }
}

export const wrongKey = (message: string): Refusal => new Refusal('WRONG_KEY', message);

const codeOfRequest = (key: string, parts: readonly string[], body: Uint8Array): Buffer =>
  createHmac('sha256', key)
    .update(`taskmaster request 1 ${parts.join('.')}\n`)
    .update(body)
    .digest();

const codeOfAnswer = (key: string, asked: Buffer, parts: readonly string[], body: Uint8Array): Buffer =>
  createHmac('sha256', key)
    .update(`taskmaster answer 1 ${parts.join('.')}\n`)
    .update(asked)
    .update(body)
    .digest();

const isEqual = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
