import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker as Thread } from 'node:worker_threads';
import type { Error as WireError } from '@taskmaster/proto';
import type { Reachable } from '../transport/transport.ts';
import { errorFromWire } from '../transport/wire-errors.ts';
import type { TaskMasterError } from '../values/errors.ts';
import { fileBeside } from '../values/thread-file.ts';
import type { KeptLease } from './renewer.ts';
import { type SentLease, sendLease } from './sent-lease.ts';

/** Data of the thread at its start. */
export interface RenewerThreadData {
  readonly reachable: Reachable;
  readonly port: MessagePort;
}

/** Message to the thread. */
export type RenewerCommand =
  | { readonly kind: 'keep'; readonly leases: readonly SentLease[] }
  | { readonly kind: 'forget'; readonly ids: readonly number[] };

/** Message from the thread. */
export type RenewerReport =
  | { readonly kind: 'renewed'; readonly ids: readonly number[]; readonly sentAt: number }
  | { readonly kind: 'cancelled'; readonly id: number; readonly reason: string }
  | { readonly kind: 'refused'; readonly id: number; readonly error: WireError };

export interface ThreadedRenewerParts {
  readonly reachable: Reachable;
  readonly onRenewed: (ids: readonly number[], sentAt: number) => void;
  readonly onCancelled: (id: number, reason: string) => void;
  readonly onRefused: (id: number, error: TaskMasterError) => void;
  /** Called when the thread has died. It renews no more leases. */
  readonly onDied: (error: unknown) => void;
}

/**
 * A `Renewer` in another thread with another connection, so that leases are renewed while a handler blocks this thread. It does
 * not keep the process alive.
 */
export class ThreadedRenewer {
  readonly #parts: ThreadedRenewerParts;
  readonly #thread: Thread;
  readonly #port: MessagePort;
  #forgotten: number[] = [];
  #closing = false;

  /** @throws Error if this process cannot start threads. If it cannot start this thread, `onDied` is called later. */
  constructor(parts: ThreadedRenewerParts) {
    this.#parts = parts;
    const { port1, port2 } = new MessageChannel();
    const data: RenewerThreadData = { reachable: parts.reachable, port: port2 };
    const file = parts.reachable.renewalThread ?? fileBeside(import.meta.url, 'renewer-thread');
    this.#thread = new Thread(file, { workerData: data, transferList: [port2], name: 'taskmaster-leases' });
    this.#thread.on('error', (error) => this.#died(error));
    this.#thread.on('exit', () => this.#died(new Error('the thread that renews leases ended')));
    this.#thread.unref();
    this.#port = port1;
    this.#port.on('message', (report: RenewerReport) => this.#heard(report));
    this.#port.unref();
  }

  keep(leases: readonly KeptLease[]): void {
    this.#post({ kind: 'keep', leases: leases.map(sendLease) });
  }

  /** Renews this lease no more. Sends one message for all leases of a turn, because many tasks end in one turn. */
  forget(id: number): void {
    if (this.#forgotten.push(id) > 1) return;
    setImmediate(() => {
      const ids = this.#forgotten;
      this.#forgotten = [];
      this.#post({ kind: 'forget', ids });
    });
  }

  /** Processes reports of the thread that the event loop has not delivered yet. */
  catchUp(): void {
    for (let next = receiveMessageOnPort(this.#port); next !== undefined; next = receiveMessageOnPort(this.#port)) {
      this.#heard(next.message);
    }
  }

  /** Renews no more. Terminates the thread, because a thread that is starting would answer late. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    this.#port.close();
    await this.#thread.terminate();
  }

  #post(command: RenewerCommand): void {
    if (!this.#closing) this.#port.postMessage(command);
  }

  #heard(report: RenewerReport): void {
    if (report.kind === 'renewed') this.#parts.onRenewed(report.ids, report.sentAt);
    else if (report.kind === 'cancelled') this.#parts.onCancelled(report.id, report.reason);
    else this.#parts.onRefused(report.id, errorFromWire(report.error));
  }

  #died(error: unknown): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#port.close();
    this.#parts.onDied(error);
  }
}
