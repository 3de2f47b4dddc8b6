import { expect, test } from 'vitest';
import { complain } from './complain.ts';

test('text of others is escaped, and lines stay lines', () => {
  const written: string[] = [];
  complain('taskmaster-node', 'b:7400 refuses: \u001b[2J\u202ehidden\nsecond', { write: (text) => written.push(text) });
  expect(written).toEqual(['taskmaster-node: b:7400 refuses: \\u{1b}[2J\\u{202e}hidden\nsecond\n']);
});
