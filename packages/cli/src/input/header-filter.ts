import type { HeaderCondition, HeaderFilter } from '@taskmaster/client';
import { InvalidArgumentError, Option } from 'commander';

/** `--where`, a filter of headers. */
export const filterOption = (): Option =>
  new Option(
    '--where <test>',
    'only tasks with this header: KEY=VALUE, KEY^=PREFIX, KEY (any value) or !KEY (none). May be given many times: all must be true; several KEY=VALUE of one key are a choice',
  ).argParser(addTest);

function addTest(text: string, before: HeaderFilter = {}): HeaderFilter {
  const [key, condition] = testOf(text);
  if (!Object.hasOwn(before, key)) return { ...before, [key]: condition };
  const values = [before[key], condition];
  if (!values.every(isChoice)) throw new InvalidArgumentError(`'${text}' is a second test of ${key}.`);
  return { ...before, [key]: values.flat() };
}

function testOf(text: string): readonly [key: string, condition: HeaderCondition] {
  const {
    key = '',
    not,
    begins,
    value,
  } = /^(?<not>!?)(?<key>[^=^!]+)(?:(?<begins>\^?)=(?<value>.*))?$/su.exec(text)?.groups ?? {};
  if (key === '' || (not !== '' && value !== undefined)) {
    throw new InvalidArgumentError(`'${text}' is not KEY=VALUE, KEY^=PREFIX, KEY or !KEY.`);
  }
  if (value === undefined) return [key, { exists: not === '' }];
  return [key, begins === '' ? value : { prefix: value }];
}

const isChoice = (condition: HeaderCondition | undefined): condition is string | readonly string[] =>
  typeof condition === 'string' || Array.isArray(condition);

/** A filter in the form of the option, for people. */
export const filterText = (filter: HeaderFilter): string =>
  Object.entries(filter)
    .map(([key, condition]) => {
      if (isChoice(condition))
        return [condition]
          .flat()
          .map((value) => `${key}=${value}`)
          .join('|');
      if ('prefix' in condition) return `${key}^=${condition.prefix}`;
      return condition.exists ? key : `!${key}`;
    })
    .join(' ');
