import type { AvailableMemory } from './available-memory.ts';
import { MIB, sizeText } from './sizes.ts';

/** One part of the memory of a program. */
interface PartSpec {
  /** The smallest size with which the program works, in bytes. */
  readonly leastBytes: number;
  /** Larger sizes rarely make anything faster. In bytes. */
  readonly usualBytes: number;
  /** The largest useful size, in bytes. Undefined: there is none. */
  readonly mostBytes?: number;
  /** Resident memory for each byte of the part. Default 1. More for objects, because V8 keeps garbage beside them. */
  readonly cost?: number;
}

/** How a program uses its memory. */
export interface MemorySpec<Part extends string> {
  /** The program with an article: `a node`. */
  readonly whose: string;
  /** Resident memory of the program without work, beside all parts, in bytes. */
  readonly processBytes: number;
  /** Memory that V8 and the allocator keep free, beside the garbage that `cost` counts. */
  readonly garbage: PartSpec;
  /**
   * The fraction of the available memory that the program takes by itself. The rest is for the page cache of the system and for
   * other programs.
   */
  readonly shares: Readonly<Record<AvailableMemory['source'], number>>;
  /** The parts, by the name of their setting, or by their purpose. */
  readonly parts: Readonly<Record<Part, PartSpec>>;
}

/** The sizes that the settings name. */
export interface ChosenMemory<Part extends string> {
  /** Undefined: the program decides. */
  readonly memory: number | undefined;
  readonly parts: Partial<Readonly<Record<Part, number>>>;
}

/** How the memory of a program is divided. Sizes in bytes. */
export interface MemoryDivision<Part extends string> {
  readonly kind: 'divided';
  readonly memory: number;
  /** Where `memory` comes from: the setting, a limit of the cgroup, or the size of the machine. */
  readonly source: 'setting' | AvailableMemory['source'];
  readonly available: AvailableMemory;
  readonly parts: Readonly<Record<Part | 'process' | 'garbage', number>>;
}

/** The parts do not fit. `problem` continues the name of the setting. */
export interface MemoryRefused {
  readonly kind: 'refused';
  readonly problem: string;
}

/** A program that has a cgroup for itself, or the machine with others. */
export const PROGRAM_SHARES: MemorySpec<never>['shares'] = { cgroup: 0.75, machine: 0.5 };

/**
 * Divides the memory of a program. Every part gets its least size. Of the memory above that, each part gets the same fraction of
 * the distance to its usual size, or several times the distance if there is enough. Parts that are chosen keep their sizes, and
 * the others share the rest.
 *
 * Without a chosen memory the program takes a fraction of the available one, but not more than its parts usually need.
 */
export function divideMemory<Part extends string>(
  spec: MemorySpec<Part>,
  chosen: ChosenMemory<Part>,
  available: AvailableMemory,
): MemoryDivision<Part> | MemoryRefused {
  const parts = partsOf(spec, chosen);
  const leastBytes = roundUp(spec.processBytes + sum(parts, ({ chosen, least, cost }) => (chosen ?? least) * cost));
  const usualBytes = spec.processBytes + sum(parts, ({ chosen, usual, cost }) => (chosen ?? usual) * cost);
  const limit = chosen.memory ?? available.bytes;
  if (limit < leastBytes) return { kind: 'refused', problem: tooLittle(spec, chosen, available, leastBytes) };
  const share = available.bytes * spec.shares[available.source];
  const memory = chosen.memory ?? Math.max(leastBytes, roundDown(Math.min(share, usualBytes)));
  const source = chosen.memory === undefined ? available.source : 'setting';
  const sizes = sizesOf(parts, memory - spec.processBytes);
  const chosenOrShared = Object.fromEntries(sizes) as Record<Part, number>;
  const sized = [...sizes].reduce((total, [name, bytes]) => (name === 'garbage' ? total : total + bytes), 0);
  const garbage = memory - spec.processBytes - sized;
  return {
    kind: 'divided',
    memory,
    source,
    available,
    parts: { ...chosenOrShared, process: spec.processBytes, garbage },
  };
}

interface Part<Name> {
  readonly name: Name;
  readonly chosen: number | undefined;
  readonly least: number;
  readonly usual: number;
  readonly most: number;
  readonly cost: number;
}

function partsOf<Name extends string>(
  spec: MemorySpec<Name>,
  chosen: ChosenMemory<Name>,
): readonly Part<Name | 'garbage'>[] {
  const sizes: Readonly<Record<string, number | undefined>> = chosen.parts;
  const entries = Object.entries<PartSpec>({ ...spec.parts, garbage: spec.garbage }) as [Name | 'garbage', PartSpec][];
  return entries.map(([name, { leastBytes, usualBytes, mostBytes = Number.POSITIVE_INFINITY, cost = 1 }]) => ({
    name,
    chosen: sizes[name],
    least: leastBytes,
    usual: usualBytes,
    most: mostBytes,
    cost,
  }));
}

/** The sizes of parts that cost `bytes` together. */
function sizesOf<Name extends string>(parts: readonly Part<Name>[], bytes: number): ReadonlyMap<Name, number> {
  const sizes = new Map<Name, number>();
  for (const { name, chosen } of parts) if (chosen !== undefined) sizes.set(name, chosen);
  let open = parts.filter(({ name }) => !sizes.has(name));
  for (;;) {
    const taken = sum(parts, ({ name, cost }) => (sizes.get(name) ?? 0) * cost);
    const least = sum(open, ({ least, cost }) => least * cost);
    const distance = sum(open, ({ least, usual, cost }) => (usual - least) * cost);
    const times = distance === 0 ? 0 : (bytes - taken - least) / distance;
    const sizeOf = ({ least, usual }: Part<Name>): number => least + (usual - least) * times;
    // A part with its largest size leaves more to the others.
    const full = open.filter((part) => sizeOf(part) > part.most);
    if (full.length === 0) {
      for (const part of open) sizes.set(part.name, roundDown(sizeOf(part)));
      return sizes;
    }
    for (const { name, most } of full) sizes.set(name, most);
    open = open.filter((part) => !full.includes(part));
  }
}

function tooLittle<Part extends string>(
  { whose, parts }: MemorySpec<Part>,
  chosen: ChosenMemory<Part>,
  available: AvailableMemory,
  leastBytes: number,
): string {
  const set = (Object.entries(chosen.parts) as [Part, number][])
    .filter(([name, bytes]) => bytes > parts[name].leastBytes)
    .map(([name, bytes]) => `${name} ${sizeText(bytes)}`);
  const withParts = set.length === 0 ? '' : ` with ${set.join(', ')}`;
  const needs = `${whose} needs at least ${sizeText(leastBytes)}${withParts}`;
  if (chosen.memory !== undefined) return `${sizeText(chosen.memory)} is too little: ${needs}`;
  const where = available.source === 'cgroup' ? 'the cgroup of this process allows' : 'this machine has';
  return `${where} ${Math.floor(available.bytes / MIB)}MiB, which is too little: ${needs}`;
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((total, one) => total + of(one), 0);
}

const roundDown = (bytes: number): number => Math.floor(bytes / MIB) * MIB;
const roundUp = (bytes: number): number => Math.ceil(bytes / MIB) * MIB;
