import { whyNoPrograms } from '../../control-plane/programs.ts';
import { whyNoPodNetwork } from '../../kubelet/network/pod-network.ts';

/** Why this machine cannot run pods; undefined if it can. */
export const whyNoKubernetes = async (): Promise<string | undefined> => whyNoPrograms() ?? (await whyNoPodNetwork());

/** For names of tests. */
export const skipped = (problem: string | undefined): string => (problem === undefined ? '' : ` (skipped: ${problem})`);
