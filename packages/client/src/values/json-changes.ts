import { types } from 'node:util';

/** What JSON text has where `JSON.stringify` may have changed a value. Most payloads have none of it, and cost no more. */
const TRACES = ['null', '{}', '"Buffer"', '{"0":'] as const;

/**
 * Says what `JSON.stringify` has changed without an error: `items[2]: NaN would become null`. Undefined: nothing. What it leaves
 * out of objects, and what has a `toJSON`, is as JSON says and no change.
 * @param text the JSON of the value.
 */
export function silentChange(value: unknown, text: string): string | undefined {
  return TRACES.some((trace) => text.includes(trace)) ? changeIn(value, '') : undefined;
}

function changeIn(value: unknown, path: string): string | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return at(path, `${value} would become null`);
  if (typeof value !== 'object' || value === null) return undefined;
  if (ArrayBuffer.isView(value))
    return at(path, 'bytes are not JSON: send base64, or give the queue `codec: bytesCodec`');
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    const made: unknown = value.toJSON(path);
    if (made === null && value instanceof Date) return at(path, 'an invalid date would become null');
    // It is not asked for its own toJSON again.
    return changeInside(made, path);
  }
  return changeInside(value, path);
}

function changeInside(value: unknown, path: string): string | undefined {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return changeIn(value, path);
  return Array.isArray(value) ? changeInArray(value, path) : changeInObject(value, path);
}

function changeInArray(array: readonly unknown[], path: string): string | undefined {
  for (let index = 0; index < array.length; index++) {
    const element = array[index];
    const place = `${path}[${index}]`;
    if (!(index in array)) return at(place, 'a hole would become null');
    if (element === undefined || typeof element === 'function' || typeof element === 'symbol') {
      return at(place, `${typeof element} would become null`);
    }
    const change = changeIn(element, place);
    if (change !== undefined) return change;
  }
  return undefined;
}

function changeInObject(object: object, path: string): string | undefined {
  const keys = Object.keys(object);
  if (types.isNativeError(object) || (keys.length === 0 && !isPlain(object))) {
    return at(path, `${nameOf(object)} would lose what it holds`);
  }
  for (const key of keys) {
    const change = changeIn((object as Readonly<Record<string, unknown>>)[key], path === '' ? key : `${path}.${key}`);
    if (change !== undefined) return change;
  }
  return undefined;
}

/** An object of any realm without a class, or of a boxed value. */
function isPlain(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === null || Object.getPrototypeOf(prototype) === null || types.isBoxedPrimitive(object);
}

function nameOf(object: object): string {
  const { name } = object.constructor ?? {};
  return typeof name === 'string' && name !== '' ? `a value of ${name}` : 'an object of a class';
}

const at = (path: string, what: string): string => (path === '' ? what : `${path}: ${what}`);
