import type { CallSignal, Refusal } from '@taskmaster/engine/domain';
import type { CallerAccess } from '@taskmaster/server/access';
import type { UnaryCaller } from '@taskmaster/server/calls';
import type { Sender } from '../upstream/sender.ts';
import type { RoutedCaller, Router } from './routing/router.ts';

/** The client of a unary call to this server. */
export class ServedCaller implements RoutedCaller {
  readonly sender: Sender;
  readonly until: number | undefined;
  readonly #caller: UnaryCaller;

  constructor(router: Router, caller: UnaryCaller, sender: Sender) {
    this.#caller = caller;
    this.sender = sender;
    const leftMs = caller.deadline - Date.now();
    this.until = Number.isFinite(leftMs) ? router.clock.now() + leftMs : undefined;
  }

  get access(): CallerAccess {
    return this.#caller.access;
  }

  get gone(): boolean {
    return this.#caller.gone;
  }

  get signal(): CallSignal | undefined {
    return this.#caller.signal;
  }

  beginWaiting(bytes: number, recheck?: () => void): void {
    this.#caller.beginWaiting?.(bytes, recheck);
  }

  requestRefused(refusal: Refusal): void {
    this.#caller.requestRefused?.(refusal);
  }
}
