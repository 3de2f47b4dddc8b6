// What a browser needs: the messages and what is pure of the rest. A bundler leaves out the services that stand beside messages,
// and gRPC with them.
export * from './escape-controls.ts';
export * from './flow-around.ts';
export * from './gen/taskmaster/v1/access.ts';
export * from './gen/taskmaster/v1/bulk.ts';
export * from './gen/taskmaster/v1/cluster.ts';
export * from './gen/taskmaster/v1/events.ts';
export * from './gen/taskmaster/v1/inspection.ts';
export * from './gen/taskmaster/v1/queues.ts';
export * from './gen/taskmaster/v1/schedules.ts';
export * from './gen/taskmaster/v1/tasks.ts';
export * from './gen/taskmaster/v1/topics.ts';
export * from './gen/taskmaster/v1/waits.ts';
export * from './queue-name.ts';
