const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;

const UNITS: readonly (readonly [unit: string, bytes: number])[] = [
  ['GiB', GIB],
  ['MiB', MIB],
  ['KiB', KIB],
  ['', 1],
];

/** The bytes of a size such as `64MiB` or `1048576`. Undefined for any other text. */
export function readSize(text: string): number | undefined {
  const [, digits, unit = ''] = /^(\d+)\s*([KMG]iB)?$/.exec(text.trim()) ?? [];
  return digits === undefined ? undefined : Number(digits) * (UNITS.find(([name]) => name === unit)?.[1] ?? 1);
}

/** A number of bytes in the largest unit that has no fraction: `64MiB`. */
export function sizeText(bytes: number): string {
  const [unit, size] = UNITS.find(([, size]) => bytes > 0 && bytes % size === 0) ?? ['', 1];
  return `${bytes / size}${unit}`;
}
