/** Fields as croner names them: the usual name, the values, and what croner subtracts from a value before it checks it. */
const fields: Readonly<Record<string, { readonly name: string; readonly range: string; readonly shift: number }>> = {
  second: { name: 'second', range: '0 to 59', shift: 0 },
  minute: { name: 'minute', range: '0 to 59', shift: 0 },
  hour: { name: 'hour', range: '0 to 23', shift: 0 },
  day: { name: 'day of month', range: '1 to 31', shift: 1 },
  nearestWeekdays: { name: 'day of month', range: '1 to 31', shift: 1 },
  month: { name: 'month', range: '1 to 12 or JAN to DEC', shift: 1 },
  dayOfWeek: { name: 'day of week', range: '0 to 7 or SUN to SAT', shift: 0 },
  year: { name: 'year', range: '1970 to 9999', shift: 0 },
};
const order = ['second', 'minute', 'hour', 'day', 'month', 'dayOfWeek', 'year'];

const nameOf = (field: string): string => fields[field]?.name ?? field;
const ONE_STEP = 'a step follows * or a range, as in */10 or 5-59/10';

/** What croner says, and what is meant. `$1` and so on are parts of what it says. */
const meanings: readonly (readonly [RegExp, (...parts: readonly string[]) => string])[] = [
  [
    /^Invalid value for (\w+): (-?\d+)/,
    (field, value) =>
      `the ${nameOf(field)} is ${Number(value) + (fields[field]?.shift ?? 0)}, not ${fields[field]?.range ?? 'a value of it'}`,
  ],
  [
    /^invalid configuration format/,
    () => 'it needs five fields (minute, hour, day of month, month, day of week), six with seconds, seven with years',
  ],
  [
    /^configuration entry (\d) \((.*)\) contains illegal/s,
    (at, text) => `the ${nameOf(order[Number(at)] ?? '')} has characters that no such field has: ${text}`,
  ],
  [/^configuration entry (\w+) \(.*\) is empty/s, (field) => `the ${nameOf(field)} has a comma without a value`],
  [/^nth weekday out of range.*Value: (.*), Type/s, (value) => `the number after # is ${value}, not 1 to 5`],
  [/illegal nth weekday: '(.*)'/s, (text) => `${text} is no weekday of a month; write MON#2 for the second Monday`],
  [/illegal stepping: 0/, () => 'the step is 0'],
  [/steps cannot be greater than .*\((\d+)\)/, (most) => `the step is larger than the ${most} values of its field`],
  [/stepping with (?:numeric|missing) prefix \('(.*)'\)/s, (text) => `${text} has a step without a range; ${ONE_STEP}`],
  [
    /illegal range with stepping: '(.*)'|illegal range: '(.*)'/s,
    (text) => `${text} is no range such as 1-5 or 10-50/10`,
  ],
  [/illegal (?:lower|upper) range|illegal stepping/, () => `a range or a step is not a number; ${ONE_STEP}`],
  [/^From value is larger than to value: '(.*)'/s, (text) => `the range ${text} begins behind its end`],
  [
    /^(\w+) is not a number: '(.*)'/s,
    (field, text) => `the ${nameOf(field)} is ${text}, not ${fields[field]?.range ?? 'a number'}`,
  ],
  [/LW can not be in a list/, () => 'LW stands alone as the day of month'],
  [/L has to be a value of its own/, () => 'L is a value of its own in the day of month, as in L or 15,L'],
  [/^Day-of-week field cannot be empty/, () => 'no day of week follows the +'],
  [/name has to stand alone \('(.*)'\)/s, (text) => `${text} is no name of a month or weekday, such as JAN or MON`],
  [/W is not allowed|Nearest weekday modifier/, () => 'W follows one day of month, as in 15W'],
  [/^@reboot/, () => '@reboot is no time; a program can enqueue a task when it starts'],
];

/** An error of croner in plain words. What is not known stays as it is. */
export function plainCronProblem(message: string): string {
  const problem = message.replace(/^Cron\w*: /, '');
  for (const [pattern, meaning] of meanings) {
    const found = pattern.exec(problem);
    if (found !== null) return meaning(...found.slice(1).filter((part) => part !== undefined));
  }
  return problem;
}
