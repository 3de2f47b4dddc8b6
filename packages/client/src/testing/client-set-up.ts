import { clientOver, type TaskMasterClient } from '../api/client.ts';
import type { ClientOptions } from '../values/options.ts';
import type { FakeEngine } from './fake-engine/fake-engine.ts';
import { FakeTransport } from './fake-transport.ts';
import { ManualTiming } from './manual-timing.ts';

export interface ClientSetUp {
  readonly client: TaskMasterClient;
  readonly timing: ManualTiming;
  readonly transport: FakeTransport;
  readonly engine: FakeEngine;
}

/** A client over a fake engine in this thread. The test advances the time. Random numbers are always a half. */
export function clientSetUp(options: ClientOptions = {}): ClientSetUp {
  const timing = new ManualTiming();
  const transport = new FakeTransport(timing);
  const client = clientOver(transport, options, { timing, random: () => 0.5 });
  return { client, timing, transport, engine: transport.engine };
}
