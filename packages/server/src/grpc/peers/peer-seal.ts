import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import { Refusal } from '../../domain/refusal.ts';
import { ReplayWindows } from '../../gossip/replay-windows.ts';
import type { Admission } from '../unary-service.ts';

/** Of a request: `run.channel.number.code`. Of its answer: `run.code`. Codes are in base64url. */
const SEAL_HEADER = 'taskmaster-seal';
/** Of a request whose sender does not know yet to which run of a node it goes. */
const NO_RUN = '';
const ID_BYTES = 12;

const newId = (): string => randomBytes(ID_BYTES).toString('base64url');

/** A call, as it was sealed. */
export interface SealedCall {
  readonly run: string;
  /** Undefined: nothing is sealed here. */
  readonly code: Buffer | undefined;
}

/** What an answer proves to be: of a holder of a key, to this very request, from the run of the node that it names. */
export type Proof = { readonly run: string } | 'forged';

/**
 * Proves that what nodes ask and answer each other comes from holders of the cluster's key, unaltered, once, and to whom
 * it was meant. It does not hide what is said. A node's first key seals its requests, and answers are sealed as their
 * requests were; all keys are accepted. Without keys everything is.
 *
 *  P1  Every start of a node is a run with a random name. A request names the run that it is meant for, and has a number
 *      in its channel: nothing is served twice, nor by another node or a later run, and no clocks need to agree.
 *  P2  Who calls a run for the first time cannot know its name: it is refused, told the name, and calls again.
 *  P3  An answer seals the request's code with it, so that it answers nothing else; refusals too.
 */
export class PeerSeal {
  readonly #keys: readonly string[];
  readonly #run = newId();
  readonly #heard = new ReplayWindows();

  constructor(keys: readonly string[]) {
    this.#keys = keys;
  }

  /** For the calls to one address. */
  channel(): SealedChannel {
    return new SealedChannel(this.#keys);
  }

  /** Whether a call may be served, and how its answer is sealed. */
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

/** Seals calls to one address, and checks what is answered there. */
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

  /** `status` and `body` are what was answered; a refusal's body are its details. */
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
