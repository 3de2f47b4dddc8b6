import { status } from '@grpc/grpc-js';
import { checkHealth, listServices, watchHealth } from '@taskmaster/server/testing';
import { expect } from 'vitest';

const SERVICES = ['', 'taskmaster.v1.TaskMasterService', 'taskmaster.v1.ClusterService'];

/** Two clients whose calls last until the server ends them: a health watch and a reflection call. */
export async function watchAll(port: number): Promise<{ toldToEnd(): Promise<void> }> {
  const health = watchHealth(port);
  const reflection = listServices(port);
  await health.said('SERVING');
  await reflection.answered;
  for (const service of SERVICES) expect(await checkHealth(port, service)).toEqual({ status: 'SERVING' });
  return {
    async toldToEnd() {
      await health.said('NOT_SERVING');
      for (const call of [health, reflection]) {
        expect(await call.ended).toMatchObject({ code: status.UNAVAILABLE });
        call[Symbol.dispose]();
      }
    },
  };
}
