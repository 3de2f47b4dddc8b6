import type { Partitions } from '@taskmaster/engine';
import type { Instant, PartitionId } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/engine/ports';
import type { HolderView, Members } from '@taskmaster/server/cluster-view';

export interface ShareLogDeps {
  readonly nodeId: string;
  readonly partitions: Partitions;
  readonly members: () => Members;
  readonly view: HolderView;
  readonly clock: Clock;
  readonly log: Log;
}

const LOOK_MS = 500;
const PROGRESS_MS = 5_000;

/** A period in which this node does not hold exactly the partitions that the ring assigns to it. */
interface Move {
  readonly began: Instant;
  said: string;
  sayAt: number;
}

/** Numbers of partitions still to move, by the name of the member that they come from or go to. */
interface Outstanding {
  readonly held: number;
  readonly wanted: number;
  readonly coming: ReadonlyMap<string, number>;
  readonly going: ReadonlyMap<string, number>;
}

/** Logs how partitions move to and from this node: at the start of a move, every few seconds, and at the end. */
export class ShareLog {
  readonly #deps: ShareLogDeps;
  #desired: readonly string[] = [];
  #move: Move | undefined;
  #cancelTimer: CancelTimer | undefined;
  #stopped = false;

  constructor(deps: ShareLogDeps) {
    this.#deps = deps;
  }

  /** Call this after every change. `desired`: node id by partition. */
  update(desired: readonly string[]): void {
    this.#desired = desired;
    if (this.#stopped) return;
    if (!this.#move) this.#beginIfAny();
    if (this.#move) this.#lookSoon();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer?.();
  }

  #lookSoon(): void {
    const { clock } = this.#deps;
    if (this.#cancelTimer) return;
    this.#cancelTimer = clock.at((clock.now() + LOOK_MS) as Instant, () => {
      this.#cancelTimer = undefined;
      this.#look();
    });
  }

  #beginIfAny(): void {
    const outstanding = this.#outstanding();
    if (isDone(outstanding)) return;
    const now = this.#deps.clock.now();
    this.#move = { began: now, said: progressOf(outstanding), sayAt: now + PROGRESS_MS };
    this.#sayBegin(outstanding);
  }

  #look(): void {
    const move = this.#move;
    if (!move) return;
    const now = this.#deps.clock.now();
    const outstanding = this.#outstanding();
    if (isDone(outstanding)) {
      this.#move = undefined;
      // A leaving node logs elsewhere that it has left.
      if (outstanding.wanted > 0) this.#sayEnd(now - move.began);
      return;
    }
    if (now >= move.sayAt) {
      const progress = progressOf(outstanding);
      // Without progress, for example because a member is down, there is nothing new to log.
      if (progress !== move.said) this.#say(outstanding, progress);
      move.said = progress;
      move.sayAt = now + PROGRESS_MS;
    }
    this.#lookSoon();
  }

  #outstanding(): Outstanding {
    const { partitions, view, nodeId, members } = this.#deps;
    const coming = new Map<string, number>();
    const going = new Map<string, number>();
    const nameOf = (id: string | undefined): string => members().get(id ?? '')?.name ?? 'an unknown member';
    let held = 0;
    let wanted = 0;
    for (const [index, target] of this.#desired.entries()) {
      const id = index as PartitionId;
      const isHeld = partitions.holds(id);
      if (isHeld) held++;
      if (target === nodeId) wanted++;
      if (target === nodeId && !isHeld) add(coming, nameOf(view.get(id)?.nodeId));
      if (target !== nodeId && isHeld) add(going, nameOf(target));
    }
    return { held, wanted, coming, going };
  }

  #sayBegin({ held, wanted, coming, going }: Outstanding): void {
    const { log, members, nodeId } = this.#deps;
    const isLeaving = members().get(nodeId)?.state === 'leaving';
    const name = isLeaving ? `${this.#name} leaves the cluster: it` : this.#name;
    const parts = [
      ...(coming.size > 0 ? [`takes ${textOf(sum(coming))} over, from ${listOf(coming)}`] : []),
      ...(going.size > 0 ? [`hands ${textOf(sum(going))} over, to ${listOf(going)}`] : []),
    ];
    log.info({ held, wanted }, `${name} ${parts.join('; it ')}`);
  }

  #say({ held, wanted }: Outstanding, progress: string): void {
    this.#deps.log.info({ held, wanted }, `${this.#name} ${progress}`);
  }

  #sayEnd(ms: number): void {
    const { partitions, log } = this.#deps;
    const held = partitions.held();
    const tasks = held.reduce((total, one) => total + one.tasks, 0);
    const seconds = (ms / 1000).toFixed(1);
    const message = `${this.#name} has its share: ${textOf(held.length)}, ${tasks} tasks, after ${seconds} s`;
    log.info({ held: held.length, tasks, ms }, message);
  }

  get #name(): string {
    const { members, nodeId } = this.#deps;
    return members().get(nodeId)?.name ?? nodeId;
  }
}

const isDone = ({ coming, going }: Outstanding): boolean => coming.size === 0 && going.size === 0;

function progressOf({ held, wanted, coming, going }: Outstanding): string {
  return [
    ...(coming.size > 0 ? [`has ${held - sum(going)} of ${wanted} partitions of its share`] : []),
    ...(going.size > 0 ? [`has ${textOf(sum(going))} still to hand over`] : []),
  ].join('; it ');
}

const textOf = (count: number): string => `${count} ${count === 1 ? 'partition' : 'partitions'}`;
const add = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);
const sum = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((total, one) => total + one, 0);
const listOf = (counts: ReadonlyMap<string, number>): string =>
  [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, count]) => `${name} (${count})`)
    .join(', ');
