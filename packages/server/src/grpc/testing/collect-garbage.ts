import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Collects the whole heap now. A target of a `WeakRef` that was made in this turn of the event loop stays. */
export const collectGarbage = runInNewContext('gc') as () => void;
