import { z } from 'zod';
import { readSize, sizeText } from './memory/sizes.ts';

// Types of settings: numbers, texts and choices. Files have typed values; the environment and flags have only text.

/** The value of a size that the program chooses itself. */
export const AUTO = 'auto';
/** Longest delay of a Node timer, in ms: about 24 days. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface Bounds {
  /** Meaning of the setting. */
  readonly about: string;
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

/** `64MiB` as a number of bytes. Any other value is returned as it is, and the schema refuses it. */
function readBytes(value: unknown): unknown {
  return typeof value === 'string' ? (readSize(value) ?? value) : value;
}

/** The environment and flags have numbers as text. */
function readNumber(value: unknown): unknown {
  return typeof value === 'string' && /^\d+$/.test(value.trim()) ? Number(value) : value;
}

function readBoolean(value: unknown): unknown {
  return value === 'true' ? true : value === 'false' ? false : value;
}

function bounded(read: (value: unknown) => unknown, { about, min, max, ...rest }: Bounds, form: string) {
  const error = `must be ${form} from ${min} to ${max}`;
  const type = z.number({ error }).int({ error }).min(min, { error }).max(max, { error });
  return z.preprocess(read, type).default(rest.default).meta({ description: about });
}

export const count = (bounds: Bounds) => bounded(readNumber, bounds, 'a whole number');
export const ms = (bounds: Bounds) => bounded(readNumber, bounds, 'a number of ms');
export const bytes = (bounds: Bounds) => bounded(readBytes, bounds, 'a number of bytes (such as 64MiB)');
/** A number of bytes, or `auto`: the program chooses it. */
export const chosenBytes = ({ about, min, max }: Omit<Bounds, 'default'>) => {
  const error = `must be auto or a number of bytes (such as 64MiB) from ${sizeText(min)} to ${sizeText(max)}`;
  const size = z.number({ error }).int({ error }).min(min, { error }).max(max, { error });
  return z
    .preprocess(readBytes, z.union([z.literal(AUTO), size], { error }))
    .default(AUTO)
    .meta({ description: about });
};
export const port = (about: string, byDefault: number) => count({ about, default: byDefault, min: 0, max: 65_535 });
export const text = (about: string, byDefault: string) =>
  z
    .string({ error: 'must be text' })
    .min(1, { error: 'must not be empty' })
    .default(byDefault)
    .meta({ description: about });
export const optionalText = (about: string) =>
  z.string({ error: 'must be text' }).default('').meta({ description: about });

const HOST = /^(\[[^\]]+\]|[^:,\s]+)$/;
const HOST_PORT = /^(\[[^\]]+\]|[^:,\s]+):\d{1,5}$/;
const DEFAULT_PORT = 7400;
const notAddresses = 'must be addresses of the form host:port, separated by commas';

function notAnAddress({ input }: { readonly input?: unknown }): string {
  if (input === '') return 'an address is empty';
  const shown = JSON.stringify(input);
  if (typeof input !== 'string' || !HOST.test(input)) return `${shown} is not of the form host:port`;
  return `${shown} has no port; write ${input}:${DEFAULT_PORT}`;
}

/** `a:7400,b:7400` as a list. Any other value is returned as it is, and the schema refuses it. */
function readList(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return value.trim() === '' ? [] : value.split(',').map((item) => item.trim());
}

export const addresses = (about: string) =>
  z
    .preprocess(
      readList,
      z.array(z.string({ error: notAnAddress }).regex(HOST_PORT, { error: notAnAddress }), { error: notAddresses }),
    )
    .default([])
    .meta({ description: about });
/** Texts, separated by commas. */
export const texts = (about: string) => {
  const error = 'must be texts, separated by commas';
  return z
    .preprocess(readList, z.array(z.string({ error }).min(1, { error: 'a text is empty' }), { error }))
    .default([])
    .meta({ description: about });
};
export const flag = (about: string, byDefault: boolean) =>
  z
    .preprocess(readBoolean, z.boolean({ error: 'must be true or false' }))
    .default(byDefault)
    .meta({ description: about });
export const choice = <T extends string>(about: string, values: readonly [T, ...T[]], byDefault: NoInfer<T>) =>
  z
    .enum(values, { error: `must be one of ${values.join(', ')}` })
    .default(byDefault as never)
    .meta({ description: about });
