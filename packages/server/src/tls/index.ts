export type { Tls } from './tls.ts';
