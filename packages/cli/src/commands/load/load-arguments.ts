import { limits } from '@taskmaster/proto';
import { InvalidArgumentError } from 'commander';
import { type Mix, OPERATIONS, type Operation } from '../../load/workload/operations.ts';
import { MIN_PAYLOAD_BYTES } from '../../load/workload/payloads.ts';

/*
 * Parsers of the options of `load`. They throw InvalidArgumentError, and commander adds the name of the option.
 */

const NUMBER = /^\d+(\.\d+)?$/;
const UNITS: Readonly<Record<string, number>> = { '': 1, B: 1, KiB: 1024, MiB: 1024 ** 2 };

/** `enqueue=3,work=3`. Operations that are not named have the weight 0. */
export function mix(text: string): Mix {
  const weights = new Map<Operation, number>();
  for (const part of text.split(',')) {
    const [name = '', weight = ''] = part.split('=').map((one) => one.trim());
    const operation = OPERATIONS.find((one) => one === name);
    if (operation === undefined || !NUMBER.test(weight)) {
      throw new InvalidArgumentError(`'${part}' is not OPERATION=WEIGHT; operations are ${OPERATIONS.join(', ')}.`);
    }
    weights.set(operation, Number(weight));
  }
  if ([...weights.values()].every((weight) => weight === 0)) {
    throw new InvalidArgumentError('At least one weight must be above 0.');
  }
  return Object.fromEntries(OPERATIONS.map((operation) => [operation, weights.get(operation) ?? 0])) as Mix;
}

/** `enqueue=30,work=30`, without operations of weight 0. */
export function mixText(weights: Mix): string {
  const used = OPERATIONS.filter((operation) => weights[operation] > 0);
  return used.map((operation) => `${operation}=${weights[operation]}`).join(',');
}

export interface SizeRange {
  readonly min: number;
  readonly max: number;
}

/** `256`, `4KiB`, or a range `100-4KiB`, in bytes. */
export function sizeRange(text: string): SizeRange {
  const [min = Number.NaN, max = min] = text.split('-').map(sizeOf);
  if (text.split('-').length <= 2 && min >= MIN_PAYLOAD_BYTES && min <= max && max <= limits.dataBytes) {
    return { min, max };
  }
  throw new InvalidArgumentError(
    `'${text}' is not a size such as 256, 4KiB or 100-4KiB, from ${MIN_PAYLOAD_BYTES} to 3MiB.`,
  );
}

/** A number that need not be whole. */
export function decimal(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = NUMBER.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`'${text}' is not a number from ${min} to ${max}.`);
  };
}

/** A name of a group to which numbers can be appended. */
export function groupPrefix(text: string): string {
  if (text !== '' && !text.includes('#') && Buffer.byteLength(text) <= 400) return text;
  throw new InvalidArgumentError('The group must have 1 to 400 bytes, without #.');
}

function sizeOf(text: string): number {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)(B|KiB|MiB)?$/.exec(text.trim()) ?? [];
  return number === undefined ? Number.NaN : Math.round(Number(number) * (UNITS[unit] ?? Number.NaN));
}
