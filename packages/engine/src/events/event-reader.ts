import type { CallSignal } from '../domain/call-signal.ts';
import type { EventPage, EventPosition, ReadEventsCommand } from '../domain/events.ts';
import type { Instant } from '../domain/ids.ts';
import type { Due } from '../leasing/deadlines.ts';
import type { Look, WaitingReader, WatchedGroup } from './watched-group.ts';

/** One read that waits for an event. It holds no events. */
export class EventReader implements Due, WaitingReader {
  readonly command: ReadEventsCommand;
  readonly group: WatchedGroup;
  readonly deadline: Instant;
  order = 0;
  /** The place behind which it has not looked. */
  from: EventPosition;
  readonly answered: Promise<EventPage>;
  readonly #signal: CallSignal | undefined;
  readonly #onAbort: () => void;
  readonly #leave: (reader: EventReader) => void;
  #resolve: (page: EventPage) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /** `gaveUp`: the error for a caller that gives up. `leave`: called when the reader waits no longer. */
  constructor(
    { command, group, from, deadline }: Pick<EventReader, 'command' | 'group' | 'from' | 'deadline'>,
    signal: CallSignal | undefined,
    gaveUp: () => unknown,
    leave: (reader: EventReader) => void,
  ) {
    this.command = command;
    this.group = group;
    this.from = from;
    this.deadline = deadline;
    this.#signal = signal;
    this.#leave = leave;
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#onAbort = () => {
      this.#left();
      this.#reject(gaveUp());
    };
    signal?.addEventListener('abort', this.#onAbort);
  }

  look(upTo: EventPosition['ticket']): Look {
    const page = this.group.page(this.from, this.command, upTo);
    if (page.count > 0) this.#answer(page);
    else this.from = page.position;
    return page;
  }

  end(upTo: EventPosition['ticket']): void {
    this.#answer(this.group.page(this.from, this.command, upTo));
  }

  #answer(page: EventPage): void {
    this.#left();
    this.#resolve(page);
  }

  #left(): void {
    this.#leave(this);
    this.#signal?.removeEventListener('abort', this.#onAbort);
  }
}
