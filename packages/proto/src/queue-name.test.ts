import { describe, expect, test } from 'vitest';
import { formatQueueName, parseQueueName } from './queue-name.ts';

describe('a queue name', () => {
  test.each([
    ['mail', '', 'mail'],
    ['shop#mail', 'shop', 'mail'],
    ['shop#', 'shop', ''],
    ['', '', ''],
    ['shop#mail#2', 'shop', 'mail#2'],
    ['#a#b', '', 'a#b'],
    ['店#手紙', '店', '手紙'],
  ])('%j is group %j, name %j, and is written so', (full, group, name) => {
    expect(parseQueueName(full)).toEqual({ group, name });
    expect(formatQueueName({ group, name })).toBe(full);
  });

  test('of the default group may be read with its separator, and is written without it', () => {
    expect(formatQueueName(parseQueueName('#mail'))).toBe('mail');
  });
});
