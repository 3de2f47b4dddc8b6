import { isUtf8 } from 'node:buffer';
import {
  bytesCodec,
  type Flow,
  type FlowHandle,
  type FlowTask,
  type FlowTaskOptions,
  pidText,
  type TaskHeaders,
  type TaskMasterClient,
  type TaskRetryOptions,
} from '@taskmaster/client';
import { assertKnown } from '@taskmaster/client/internal';
import { InvalidArgumentError } from 'commander';
import { UsageError } from '../views/cli-errors.ts';
import { instant, payload, pid, queueName } from './arguments.ts';

/*
 * A flow as a JSON document: `{"tasks": [...]}`. Each task has a name, a queue, its data (`data`, any JSON, or `payload`, bytes
 * in their text form), and the options of a task of a flow of the client, in the forms that JSON and the command line have.
 */

type Fields = Readonly<Record<string, unknown>>;

/** Longest document, in bytes. An update is smaller, but a document may have indentation and escapes. */
export const FLOW_DOCUMENT_BYTES = 16 * 1024 * 1024;

/** Options that JSON has in another form, or whose types the client does not check. It checks all others, also their names. */
const readers: { readonly [Name in keyof FlowTaskOptions]?: (value: unknown) => FlowTaskOptions[Name] } = {
  pid: (value) => pid(text(value)),
  key: text,
  runAt: (value) => instant(text(value)),
  startBy: (value) => instant(text(value)),
  headers: (value) => object(value) as TaskHeaders,
  retry,
  orderKey: text,
  after: (value) => (Array.isArray(value) ? value.map(text) : text(value)),
  collect: flag,
};

const documentFields = { tasks: true } as const;

/** The flow of a document. `where`: its name for messages. @throws UsageError */
export function readFlow(client: TaskMasterClient, document: Buffer, where: string): Flow {
  const flow = client.flow();
  for (const [at, task] of tasksOf(document, where).entries()) {
    const { name } = (task ?? {}) as Fields;
    const place = `${where}: task ${at + 1}${typeof name === 'string' ? ` '${name}'` : ''}`;
    told(place, () => addTask(flow, client, object(task)));
  }
  return flow;
}

/** The last tasks of the handle that `flow enqueue --json` writes. `where`: its name for messages. @throws UsageError */
export function readHandle(document: Buffer, where: string): FlowHandle {
  const tasks = tasksOf(document, where)
    .map((task, at) => told(`${where}: task ${at + 1}`, () => handleTask(object(task))))
    .filter(({ isLast }) => isLast);
  if (tasks.length === 0) throw new UsageError(`${where}: no task of it is the last one`);
  return { tasks };
}

function handleTask({ name, queue, pid: ofTask, result, isLast }: Fields): FlowTask {
  return {
    name: told('name', () => text(name)),
    queue: told('queue', () => queueName(text(queue))),
    pid: told('pid', () => pidText(pid(text(ofTask)))),
    result: told('result', () => text(result) as FlowTask['result']),
    isLast: told('isLast', () => flag(isLast)),
  };
}

function tasksOf(document: Buffer, where: string): readonly unknown[] {
  const fields = told(where, () => {
    // Decoding turns different invalid bytes into the same text.
    if (!isUtf8(document)) throw new TypeError('it is not UTF-8');
    return object(jsonOf(document));
  });
  return told(where, () => {
    assertKnown('flow', fields, documentFields);
    if (Array.isArray(fields.tasks)) return fields.tasks;
    throw new TypeError('tasks: it is not a list');
  });
}

function jsonOf(document: Buffer): unknown {
  try {
    return JSON.parse(document.toString('utf8'));
  } catch (error) {
    throw new TypeError(`it is not JSON: ${messageOf(error)}`);
  }
}

function addTask(flow: Flow, client: TaskMasterClient, task: Fields): void {
  const { name: ofTask, queue: ofQueue, data, payload: bytes, ...options } = task;
  const name = told('name', () => text(ofTask));
  const queue = told('queue', () => queueName(text(ofQueue)));
  if ((data === undefined) === (bytes === undefined)) throw new TypeError('give data or payload, one of them');
  const given = Object.fromEntries(Object.entries(options).map(([option, value]) => [option, read(option, value)]));
  if (bytes === undefined) {
    flow.add(name, queue, data, given);
  } else {
    const content = told('payload', () => payload(text(bytes)));
    flow.add(name, client.queue(queue, { codec: bytesCodec }), content, given);
  }
}

function read(option: string, value: unknown): unknown {
  const reader = Object.hasOwn(readers, option) ? readers[option as keyof FlowTaskOptions] : undefined;
  return reader === undefined ? value : told(option, () => reader(value));
}

function retry(value: unknown): TaskRetryOptions {
  const given = object(value);
  // JSON has no Infinity.
  return given.maxAttempts === 'unlimited' ? { ...given, maxAttempts: Number.POSITIVE_INFINITY } : given;
}

function text(value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw new TypeError(value === undefined ? 'it is missing' : `${shown(value)} is no text`);
}

function flag(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw new TypeError(`${shown(value)} is neither true nor false`);
}

function object(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new TypeError(`${shown(value)} is no object`);
}

/** The beginning of a value, for messages. */
const shown = (value: unknown): string => {
  const json = jsonText(value);
  return json.length > 40 ? `${json.slice(0, 40)}…` : json;
};

function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'nothing';
  } catch (error) {
    // JSON is read to any depth, and written only as deep as the stack is.
    if (error instanceof RangeError) return 'a very deep value';
    throw error;
  }
}

/** Says in errors what they are about. */
function told<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!isMistake(error)) throw error;
    throw new UsageError(`${what}: ${messageOf(error)}`);
  }
}

/** Whether an error says what is wrong with the document. */
export const isMistake = (error: unknown): error is Error =>
  error instanceof TypeError || error instanceof UsageError || error instanceof InvalidArgumentError;

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message.replace(/\.$/, '') : String(error);
