import type { V1Pod } from '@kubernetes/client-node';

/** What a pod asks for that this kubelet does not do. It must not run as if it had. */
export function unsupportedIn({ spec }: V1Pod): string[] {
  const all = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
  const found: (string | false | undefined)[] = [
    spec?.hostNetwork && 'hostNetwork',
    spec?.hostPID && 'hostPID',
    spec?.shareProcessNamespace && 'shareProcessNamespace',
    spec?.hostAliases && 'hostAliases',
    spec?.activeDeadlineSeconds !== undefined && 'activeDeadlineSeconds',
    spec?.readinessGates && 'readinessGates',
    ...all.flatMap(({ name, lifecycle, restartPolicy, volumeMounts = [] }) => [
      lifecycle?.postStart && `postStart of ${name}`,
      restartPolicy && `restartPolicy of container ${name}`,
      volumeMounts.some(({ subPathExpr }) => subPathExpr) && `subPathExpr in ${name}`,
    ]),
  ];
  return found.filter((one) => typeof one === 'string');
}
