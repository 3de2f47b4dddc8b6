export { decodeAcceptedLoss, encodeAcceptedLoss } from './accepted-loss.ts';
export { FirstTimes } from './first-times.ts';
export { afterPrefix, metaKeys } from './keys.ts';
