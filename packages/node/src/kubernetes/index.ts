export { accessOfPod, openApi } from './api.ts';
export { ConfigMapRecord } from './config-map-record.ts';
export { podFuture } from './stateful-set.ts';
