import { Refusal } from '@taskmaster/engine/domain';
import { describe, expect, test } from 'vitest';
import { parseTrigger } from './trigger.ts';

const GOOD = { group: 'shop', queue: 'mail', targetTasks: '20' };

describe('the metadata of a trigger', () => {
  test('name a queue; the metric is its tasks', () => {
    const trigger = parseTrigger({ ...GOOD, activationTasks: '5' });
    expect(trigger).toMatchObject({ metricName: 'taskmaster-tasks', target: 20, activation: 5 });
    expect(trigger.selection.request).toEqual({ queues: ['shop#mail'], filter: undefined });
    expect(trigger.measure({ tasks: 7, oldestAgeMs: 1_000, unseenQueues: 3 })).toBe(7);
  });

  test('name a queue of the default group', () => {
    const { selection } = parseTrigger({ group: '', queue: 'mail', targetTasks: '1' });
    expect(selection.request.queues).toEqual(['mail']);
  });

  test('have a pattern; the metric is the oldest age', () => {
    const trigger = parseTrigger({
      group: 'shop',
      pattern: '#mail-',
      metric: 'oldestAgeSeconds',
      targetAgeSeconds: '0.5',
      activationAgeSeconds: '60',
    });
    expect(trigger).toMatchObject({ metricName: 'taskmaster-oldest-age-seconds', target: 0.5, activation: 60 });
    expect(trigger.selection.request).toEqual({ queues: [], filter: { nameRegex: '#mail-', group: 'shop' } });
    expect(trigger.measure({ tasks: 7, oldestAgeMs: 1_500, unseenQueues: 0 })).toBe(1.5);
    expect(() => trigger.measure({ tasks: 7, oldestAgeMs: 1_500, unseenQueues: 1 })).toThrow(
      /^scalerMetadata.pattern /,
    );
  });

  test('may have the keys of the connection, which KEDA sends too', () => {
    const more = { scalerAddress: 'tm:7500', enableTLS: 'true', unsafeSsl: 'false', caCert: 'x' };
    expect(parseTrigger({ ...GOOD, ...more }).target).toBe(20);
  });

  test('of equal queues have equal keys, of a queue and a pattern different ones', () => {
    const keyOf = (metadata: Record<string, string>): string => parseTrigger(metadata).selection.key;
    expect(keyOf({ ...GOOD, targetTasks: '1' })).toBe(keyOf(GOOD));
    expect(keyOf({ group: 'shop', pattern: 'mail', targetTasks: '1' })).not.toBe(keyOf(GOOD));
  });
});

const { group, queue, targetTasks } = GOOD;

describe('metadata that are wrong name the key', () => {
  test.each([
    ['an unknown key', { ...GOOD, queueName: 'x' }, 'INVALID_ARGUMENT', '"queueName"'],
    ['a key in the wrong case', { ...GOOD, targettasks: '1' }, 'INVALID_ARGUMENT', '"targettasks"'],
    ['no group', { queue, targetTasks }, 'INVALID_ARGUMENT', 'group'],
    ['a group with #', { ...GOOD, group: 'a#b' }, 'INVALID_QUEUE', 'group'],
    ['a group that is too long', { ...GOOD, group: 'g'.repeat(513) }, 'INVALID_QUEUE', 'group'],
    ['neither queue nor pattern', { group, targetTasks }, 'INVALID_ARGUMENT', 'queue'],
    ['both', { ...GOOD, pattern: 'x' }, 'INVALID_ARGUMENT', 'pattern'],
    ['an empty queue', { ...GOOD, queue: '' }, 'INVALID_QUEUE', 'queue'],
    ['a queue with its group', { ...GOOD, queue: 'shop#mail' }, 'INVALID_ARGUMENT', 'queue'],
    ['a queue that is too long', { ...GOOD, queue: 'q'.repeat(513) }, 'INVALID_QUEUE', 'queue'],
    ['an empty pattern', { group, targetTasks, pattern: '' }, 'INVALID_ARGUMENT', 'pattern'],
    ['a pattern that is not RE2', { group, targetTasks, pattern: '(?=a)' }, 'INVALID_REGEX', 'pattern'],
    ['another metric', { ...GOOD, metric: 'length' }, 'INVALID_ARGUMENT', 'metric'],
    ['a metric of every object', { ...GOOD, metric: 'constructor' }, 'INVALID_ARGUMENT', 'metric'],
    ['no target', { group, queue }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['no target of an age', { group, queue, metric: 'oldestAgeSeconds' }, 'INVALID_ARGUMENT', 'targetAgeSeconds'],
    ['the target of another metric', { ...GOOD, targetAgeSeconds: '1' }, 'INVALID_ARGUMENT', 'targetAgeSeconds'],
    ['a target of 0', { ...GOOD, targetTasks: '0' }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['an empty target', { ...GOOD, targetTasks: '' }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['a target below 0', { ...GOOD, targetTasks: '-1' }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['a target that is no number', { ...GOOD, targetTasks: 'many' }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['a target with an exponent', { ...GOOD, targetTasks: '1e9' }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['a target that is too large', { ...GOOD, targetTasks: '9'.repeat(13) }, 'INVALID_ARGUMENT', 'targetTasks'],
    ['a threshold that is no number', { ...GOOD, activationTasks: '5k' }, 'INVALID_ARGUMENT', 'activationTasks'],
  ])('%s', (_, metadata, reason, key) => {
    const refusal = refusalOf(metadata);
    expect(refusal.reason).toBe(reason);
    expect(refusal.metadata.field).toBe(`scalerMetadata.${key}`);
    expect(refusal.message).toMatch(`scalerMetadata.${key} `);
  });
});

function refusalOf(metadata: Readonly<Record<string, string>>): Refusal {
  try {
    parseTrigger(metadata);
  } catch (thrown) {
    if (thrown instanceof Refusal) return thrown;
    throw thrown;
  }
  return expect.unreachable('the metadata were accepted');
}
