import { isIPv6 } from 'node:net';
import { durationMs, type Pid, pidFromText } from '@taskmaster/client';
import { canonicalName, nameToFill, queuesPattern } from '@taskmaster/client/internal';
import { parseQueueName } from '@taskmaster/proto';
import { InvalidArgumentError, Option } from 'commander';
import { bytesOf } from '../views/bytes-text.ts';

/*
 * Parsers of arguments and options. They throw InvalidArgumentError, and commander adds the name of the option.
 */

const DEFAULT_PORT = 7400;

/** A duration in ms. */
export function lengthOfTime(text: string): number {
  try {
    return durationMs(text);
  } catch {
    throw new InvalidArgumentError(`'${text}' is not a duration such as 250ms, 1.5s, 5m, 2h or 7d.`);
  }
}

/** A duration in ms that is not 0. */
export function someTime(text: string): number {
  const ms = lengthOfTime(text);
  if (ms < 1) throw new InvalidArgumentError(`'${text}' is less than 1ms.`);
  return ms;
}

/** A date and a time with a zone, in ISO 8601. Without a zone it would depend on the machine. */
export function instant(text: string): Date {
  const [, day, time] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  const date = new Date(text.replace(',', '.'));
  if (day === undefined || time === undefined || Number.isNaN(date.getTime())) {
    throw new InvalidArgumentError(`'${text}' is not a time with a zone, such as 2030-01-01T09:00:00Z.`);
  }
  // Date turns 30 February into 2 March, and 24:00 into the next day.
  if (new Date(`${day}T${time}Z`).toISOString().slice(0, 16) !== `${day}T${time}`) {
    throw new InvalidArgumentError(`'${text}' does not exist: there is no ${day} ${time}.`);
  }
  return date;
}

/** A text that is not empty: to the node, the empty one says that none is given. */
export function someText(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must not be empty.');
  return text;
}

/** The values of an option that may be given many times. */
export const collected = (text: string, before: readonly string[] = []): readonly string[] => [...before, text];

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    const upTo = max === Number.MAX_SAFE_INTEGER ? '' : ` to ${max}`;
    throw new InvalidArgumentError(`'${text}' is not a whole number from ${min}${upTo}.`);
  };
}

export const anyWholeNumber = wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** Addresses of the form `host:port,...`. The port has a default. */
export function endpoints(text: string): readonly string[] {
  return text.split(',').map((part) => {
    const endpoint = part.trim();
    if (endpoint === '') throw new InvalidArgumentError('An address is missing before or after a comma.');
    if (isIPv6(endpoint)) {
      throw new InvalidArgumentError(`'${endpoint}' needs brackets: write [${endpoint}]:${DEFAULT_PORT}.`);
    }
    // An address with a scheme, such as dns:///name:port, is for gRPC to resolve.
    if (endpoint.includes('/')) return endpoint;
    const [, host, port] = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(endpoint) ?? [];
    if (host === undefined || Number(port ?? DEFAULT_PORT) > 65_535) {
      throw new InvalidArgumentError(`'${endpoint}' is not host:port.`);
    }
    return `${host}:${port ?? DEFAULT_PORT}`;
  });
}

export function queueName(text: string): string {
  if (parseQueueName(text).name === '') throw new InvalidArgumentError('The name of a queue must not be empty.');
  return canonicalName(text);
}

/** A queue or a topic that gets tasks. Its name has one `#` at most. */
export const queueToFill = refusing((text): string => nameToFill(queueName(text)));

/** The queues of one group that match: `group#pattern`. */
export const pattern = refusing((text): string => queuesPattern(queueName(text)));

export function groupName(text: string): string {
  if (text.includes('#')) throw new InvalidArgumentError(`'${text}' is not a group: a group contains no #.`);
  return text;
}

export const pid = refusing((text): Pid => pidFromText(text));

export const payload = refusing((text): Buffer => bytesOf(text));

export const leaseToken = wholeNumber(1, Number.MAX_SAFE_INTEGER);

/** A parser that refuses what `parse` does not take, with the message of its error. */
function refusing<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      if (error instanceof InvalidArgumentError) throw error;
      throw new InvalidArgumentError(`${error instanceof Error ? error.message : String(error)}.`);
    }
  };
}

/** `--lease-duration`. Without it the settings of the queue decide. */
export const leaseDurationOption = (what: string): Option =>
  new Option('--lease-duration <duration>', `${what} (default: that of the queue, or 30s)`).argParser((text) => {
    const ms = lengthOfTime(text);
    if (ms < 1) throw new InvalidArgumentError('A lease lasts at least 1ms.');
    return ms;
  });
