// What the HTTP server of a node is made of, for that of a proxy.

export { livez } from './health.ts';
export { type QueueReads, queuesApi } from './queues-api.ts';
export { jsonReply, type Reply } from './reply.ts';
export { RpcMetrics, type RpcMetricsSources } from './rpc-metrics.ts';
export { HttpServer, type HttpServerOptions, type Route } from './server.ts';
