import { VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { memberMeta, membershipContract } from './membership-contract.ts';
import { SimGossip } from './sim-membership.ts';

membershipContract('simulated gossip', async () => {
  const time = new VirtualTime();
  const net = new SimGossip();
  let port = 1;
  return {
    open: async (self, seeds) => net.open(self, `10.0.0.1:${port++}`, seeds, new VirtualClock({ time })),
    until: async (condition) => {
      for (let steps = 0; !condition(); steps++) {
        if (steps > 1000) throw new Error('not within 10 s');
        await time.advance(10);
      }
    },
    [Symbol.asyncDispose]: async () => {
      for (const member of [...net.members.values()]) await member.close();
    },
  };
});

test('in a cut network each side sees the other as dead, until the cut ends', async () => {
  const time = new VirtualTime();
  let cut = false;
  const net = new SimGossip({ reach: () => ({ drop: cut, delayMs: 1 }), deadAfterMs: 1000 });
  const a = net.open(memberMeta('a'), 'a', [], new VirtualClock({ time }));
  const b = net.open(memberMeta('b'), 'b', ['a'], new VirtualClock({ time }));
  await time.advance(500);
  expect([a, b].map((member) => member.peers()[0]?.alive)).toEqual([true, true]);
  cut = true;
  await time.advance(1500);
  expect([a, b].map((member) => member.peers()[0]?.alive)).toEqual([false, false]);
  cut = false;
  await time.advance(500);
  expect([a, b].map((member) => member.peers()[0]?.alive)).toEqual([true, true]);
  await a.close();
  await b.close();
});
