import { randomBytes } from 'node:crypto';
import { isTaskMasterError, type TaskMasterError } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import type { Lane, Lanes, OutboxRow, Picked } from './lanes.ts';
import { barOf, type Markers } from './markers.ts';

/** Bytes of tasks in one batch, which is one request. */
const BATCH_BYTES = limits.requestBytes / 4;

/** A batch that the node has. */
export interface SentBatch {
  readonly queue: string;
  /** Its number of tasks. */
  readonly tasks: number;
  /** Age of its oldest task when the batch was made, by the database's clock, in ms. 0 for a batch of an earlier relay. */
  readonly lagMs: number;
  /** From reading the rows until the node has them on its disk, in ms. */
  readonly tookMs: number;
}

/** A task that the node refuses for good. It is in the table of refused tasks now. */
export interface RefusedRow {
  readonly queue: string;
  readonly id: string;
  readonly error: TaskMasterError;
}

export interface LaneEvents {
  readonly onBatch: (batch: SentBatch) => void;
  readonly onRefused: (row: RefusedRow) => void;
  readonly onLostMarker: (queue: string) => void;
}

/**
 * What a batch has come to: tasks were sent and more may be there, they were the last ones, the batch must be made anew, or
 * another relay has the lane.
 */
export type Sent = 'sent' | 'last' | 'again' | 'taken';

/** Sends the tasks of one queue, batch after batch, for as long as this relay has the lane. */
export class LaneSender {
  readonly queue: string;
  readonly #lanes: Lanes;
  readonly #markers: Markers;
  readonly #events: LaneEvents;
  readonly #most: number;
  /** Tasks in the next batch. Fewer after a refusal, to find the task that is to blame, or to fit into the room that there is. */
  #size: number;
  #lane: Lane | undefined;

  constructor(queue: string, parts: { lanes: Lanes; markers: Markers; events: LaneEvents; batchTasks: number }) {
    this.queue = queue;
    this.#lanes = parts.lanes;
    this.#markers = parts.markers;
    this.#events = parts.events;
    this.#most = parts.batchTasks;
    this.#size = parts.batchTasks;
  }

  /** Sends one batch. After an error its outcome is open, and the next call goes on with it. */
  async send(): Promise<Sent> {
    const began = performance.now();
    let lane = this.#lane ?? (await this.#lanes.take(this.queue));
    // After an error it is read again: another relay may have it.
    this.#lane = undefined;
    if (lane === undefined) return 'taken';
    let picked: Picked | undefined;
    if (lane.batch === '') {
      picked = await this.#lanes.pick(this.queue, this.#size, BATCH_BYTES);
      if (picked.ids.length === 0) {
        this.#lane = lane;
        return 'last';
      }
      const { ids } = picked;
      lane = await this.#lanes.begin(lane, { marker: await this.#markerOf(lane), batch: newName(), ids });
      if (lane === undefined) return 'taken';
    }
    const rows = await this.#lanes.load(lane.ids);
    try {
      await this.#markers.apply(lane, rows);
    } catch (error) {
      const settled = await this.#settle(lane, rows, error);
      if (settled !== 'applied') return settled;
    }
    await this.#lanes.remove(lane.ids);
    this.#lane = await this.#lanes.finish(lane, lane.batch);
    this.#size = Math.min(this.#most, this.#size * 2);
    const lagMs = rows.reduce((most, { createdMs }) => Math.max(most, (picked?.nowMs ?? 0) - createdMs), 0);
    this.#events.onBatch({ queue: this.queue, tasks: rows.length, lagMs, tookMs: performance.now() - began });
    return picked?.areAll ? 'last' : 'sent';
  }

  async #markerOf({ queue, marker }: Lane): Promise<string> {
    if (marker !== '') return marker;
    const first = newName();
    await this.#markers.start(queue, first);
    return first;
  }

  /** Finds out what a refusal means. @throws the error if the batch is to be repeated as it is. */
  async #settle(lane: Lane, rows: readonly OutboxRow[], error: unknown): Promise<'applied' | 'again' | 'taken'> {
    // Without an answer nothing is known, and the same batch is sent again.
    if (!isTaskMasterError(error) || error.maybeApplied || !isAboutTasks(error)) throw error;
    // The batch may have been applied before: by an attempt without an answer, or by the relay before this one.
    const place = await this.#markers.find(lane);
    if (place === 'applied') return 'applied';
    if (place === 'lost') return this.#startAnew(lane);
    if (place === 'open') {
      const blamed = blame(error, rows);
      // One task for which there is no room yet.
      if (blamed.length === 0 && rows.length === 1 && error.reason !== 'REQUEST_ID_REUSED') throw error;
      const barred = await this.#markers.bar(lane);
      if (barred === 'applied') return 'applied';
      if (barred === 'lost') return this.#startAnew(lane);
      for (const { id } of blamed) {
        await this.#lanes.refuse(id, error.reason, error.message);
        this.#events.onRefused({ queue: this.queue, id, error });
      }
      if (blamed.length === 0) this.#size = Math.max(1, Math.ceil(rows.length / 2));
    }
    this.#lane = await this.#lanes.finish(lane, barOf(lane.batch));
    return 'again';
  }

  /**
   * The node has none of the markers: somebody has deleted them, or the node has lost them with its disk or an older backup. The
   * batch is not known to be applied, so it is sent under a new name behind a new marker.
   */
  async #startAnew(lane: Lane): Promise<'again' | 'taken'> {
    const marker = newName();
    await this.#markers.start(this.queue, marker);
    const next = await this.#lanes.begin(lane, { marker, batch: newName(), ids: lane.ids });
    if (next === undefined) {
      await this.#markers.end(this.queue, marker);
      return 'taken';
    }
    this.#lane = next;
    this.#events.onLostMarker(this.queue);
    return 'again';
  }
}

const newName = (): string => randomBytes(16).toString('base64url');

/**
 * Codes of gRPC of refusals that follow from the tasks of a batch, and not from the state of nodes or the rights of the relay:
 * INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE.
 */
const ofTasks: ReadonlySet<number> = new Set([3, 5, 6, 9, 11]);

/** Refusals of a batch of which a part may fit. */
const ofRoom: ReadonlySet<string> = new Set(['BACKLOG_FULL', 'QUOTA_EXCEEDED']);

/** Those of groups that move have a status of this kind, too, and pass by themselves. */
const ofGroups: ReadonlySet<string> = new Set(['NOT_HOLDER', 'NO_CLUSTER', 'WRONG_CLUSTER', 'INCOMPATIBLE_RELEASE']);

const isAboutTasks = ({ code, reason }: TaskMasterError): boolean =>
  ofRoom.has(reason) || (ofTasks.has(code) && !ofGroups.has(reason));

/** The tasks that are to blame for a refusal: those that it names, or the only one. */
function blame(error: TaskMasterError, rows: readonly OutboxRow[]): readonly OutboxRow[] {
  if (ofRoom.has(error.reason) || error.reason === 'REQUEST_ID_REUSED') return [];
  // The first enqueue of the update is that of the marker.
  const named = error.items.flatMap(({ kind, index }) =>
    kind === 'enqueue' && index > 0 ? (rows[index - 1] ?? []) : [],
  );
  return named.length > 0 || rows.length > 1 ? named : rows;
}
