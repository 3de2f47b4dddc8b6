import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { root } from '../support/paths.ts';
import { type Running, startProcess } from '../support/processes/child-process.ts';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { pythonWithGrpc } from './foreign-tools.ts';

/** Number of kills, by turns of a worker and of the node. 30 for a long run. */
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 2);
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);

const python = await pythonWithGrpc();
const skipped = python.kind === 'missing' ? ` (skipped: ${python.reason})` : '';

test.skipIf(python.kind === 'missing')(
  `workers of Python and their node, killed ${KILLS} times, lose no task and complete none twice${skipped}`,
  { timeout: 120_000 + KILLS * 15_000 },
  async () => {
    await using dir = await temporaryDirectory();
    const random = new SeededRandom(SEED);
    const program = (name: string, ...args: string[]): Promise<Running> =>
      startProcess(python.kind === 'ready' ? python.path : '', [join(root, 'test/process/python', name), ...args], {
        env: { ...process.env, PYTHONPATH: join(root, 'clients', 'python') },
      });
    let node = await startNode({ dir: dir.path });
    const { grpcPort, endpoint } = node;
    await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
    const worker = (at: number): Promise<Running> =>
      program('kill_worker.py', endpoint, ...(at % 2 === 0 ? [] : ['--asyncio']));
    const workers = [await worker(0), await worker(1)];
    await using _workers = {
      [Symbol.asyncDispose]: async () => {
        for (const one of workers) await one[Symbol.asyncDispose]();
      },
    };
    await using load = await program('kill_load.py', endpoint);
    let begun = 0;
    const linesOf = ({ stdout }: Running): number => stdout.split('\n').length - 2;
    const acknowledged = (): number => load.stdout.split('\n').length;
    for (let kill = 0; kill < KILLS; kill++) {
      const enough = acknowledged() + 20 + random.int(20);
      await eventually(() => expect(acknowledged()).toBeGreaterThan(enough), { withinMs: 60_000 });
      await delay(random.int(50)); // A random moment.
      if (kill % 2 === 0) {
        const at = (kill / 2) % 2;
        const killed = workers[at];
        await killed?.kill();
        begun += killed === undefined ? 0 : linesOf(killed);
        workers[at] = await worker(at);
      } else {
        await node.kill();
        node = await startNode({ dir: dir.path, grpcPort });
      }
    }
    load.process.stdin?.end();
    const { code, stdout, stderr } = await load.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { sent, ended, ...violations } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
    for (const one of workers) begun += linesOf(one);
    console.log(
      `${KILLS} kills, seed ${SEED}: ${sent} updates, ${begun} handlers, violations ${JSON.stringify(violations)}`,
    );
    expect({ ended, ...violations }).toEqual({
      ended: { completed: sent },
      enqueuedTwice: [],
      lost: [],
      completedTwice: [],
      left: 0,
    });
  },
);
