// Formats figures for people.

// A page creates them: the first one takes 50 ms, which would slow down every start.
let formats: Record<'whole' | 'tenths', Intl.NumberFormat> | undefined;

function formatsOf(): NonNullable<typeof formats> {
  formats ??= {
    whole: new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 }),
    tenths: new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 }),
  };
  return formats;
}

export function formatCount(value: number): string {
  return formatsOf().whole.format(value);
}

/** Small rates keep a digit, so that a slow queue does not look idle. */
export function formatRate(perSecond: number): string {
  if (perSecond === 0) return '0';
  if (perSecond < 0.05) return '<0.1';
  const { whole, tenths } = formatsOf();
  return perSecond < 100 ? tenths.format(perSecond) : whole.format(perSecond);
}

const units: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1_000, 's'],
];

/** The two largest units: `2d 3h`, `4m 10s`, `1.5s`, `20ms`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 10_000) return `${formatsOf().tenths.format(ms / 1_000)}s`;
  const first = units.findIndex(([unit]) => ms >= unit);
  const [unit, name] = units[first] ?? [1_000, 's'];
  const rest = units[first + 1];
  const larger = `${Math.floor(ms / unit)}${name}`;
  const smaller = rest === undefined ? 0 : Math.floor((ms % unit) / rest[0]);
  return rest === undefined || smaller === 0 ? larger : `${larger} ${smaller}${rest[1]}`;
}
