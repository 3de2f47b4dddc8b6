import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { playScenario } from './scenario.ts';
import { openShell } from './shell.ts';

const folder = new URL('./scenarios/', import.meta.url);

/** Time limit of a scenario in ms: each command takes a third of a second to start on an idle machine. */
const SCENARIO_MS = 120_000;

describe('the scenario', () => {
  let node: RunningNode;
  beforeAll(async () => {
    node = await startNode();
  });
  afterAll(() => node[Symbol.asyncDispose]());

  test.each(readdirSync(folder).toSorted())(
    '%s',
    async (file) => {
      await using shell = await openShell(node.endpoint);
      const { expected, actual } = await playScenario(readFileSync(new URL(file, folder), 'utf8'), shell);
      expect(actual).toBe(expected);
    },
    SCENARIO_MS,
  );
});
