import { keptLog, VirtualClock } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { openAudit } from './open-audit.ts';

test('the last changes are kept in memory, and refusals do not push them out', () => {
  using audit = openAudit('', new VirtualClock(), keptLog());
  const change = (target: string) => ({ kind: 'management' as const, action: 'DeleteQueue', target, result: 'ok' });
  audit.record(change('g#first'));
  for (let n = 0; n < 300; n++) audit.record({ ...change(`g#${n}`), kind: 'refusal', result: 'PERMISSION_DENIED' });
  audit.record({ ...change('g#"kind":"refusal"'), kind: 'membership' });
  const targets = (): string[] => audit.recent().map((line) => (JSON.parse(line) as { target: string }).target);
  expect(targets()).toEqual(['g#first', 'g#"kind":"refusal"']);
  for (let n = 0; n < 200; n++) audit.record(change(`g#${n}`));
  expect([targets().length, targets().at(0), targets().at(-1)]).toEqual([200, 'g#0', 'g#199']);
});
