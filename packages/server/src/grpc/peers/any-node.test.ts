import { SeededRandom } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { addressesBehind } from './any-node.ts';

const NODES = ['10.0.0.1', '10.0.0.2', 'fd00::3'];

describe('the addresses behind a name', () => {
  const random = new SeededRandom(1);

  test('are all of its nodes, each of them first at times', async () => {
    const firsts = new Set<string>();
    for (let at = 0; at < 30; at++) {
      const addresses = await addressesBehind('nodes:7400', async () => NODES, random);
      expect(addresses.toSorted()).toEqual(['10.0.0.1:7400', '10.0.0.2:7400', '[fd00::3]:7400']);
      firsts.add(addresses[0] ?? '');
    }
    expect(firsts.size).toBe(3);
  });

  test.each([
    ['an IP address', '10.0.0.1:7400', NODES],
    ['an IPv6 address', '[fd00::3]:7400', NODES],
    ['a name of one node', 'node:7400', ['10.0.0.1']],
  ])('%s is asked as it is', async (_what, address, found) => {
    expect(await addressesBehind(address, async () => found, random)).toEqual([address]);
  });

  test('a name that cannot be resolved is asked as it is, so that gRPC tells why', async () => {
    const lookUp = () => Promise.reject(new Error('ENOTFOUND'));
    expect(await addressesBehind('none:7400', lookUp, random)).toEqual(['none:7400']);
  });
});
