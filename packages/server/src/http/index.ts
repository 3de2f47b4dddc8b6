export { addClockMetrics, addGossipMetrics } from './gossip-metrics.ts';
export { explainHealth, isReady, livez, type NodeHealth, readyz, startupz } from './health.ts';
export { filterOf, type QueueReads, queuesApi } from './queues-api.ts';
export { addPrincipalQuotaMetrics } from './quota-metrics.ts';
export { httpStatus, jsonReply, type Reply } from './reply.ts';
export { RpcMetrics, type RpcMetricsSources } from './rpc-metrics.ts';
export { type ScheduleReads, schedulesApi } from './schedules-api.ts';
export { HttpServer, type HttpServerOptions, httpOptions, type Route } from './server.ts';
