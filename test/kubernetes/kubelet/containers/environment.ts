import type { V1Container, V1Pod } from '@kubernetes/client-node';

/** What the variables of a container may refer to. */
export interface EnvironmentSources {
  readonly pod: V1Pod;
  readonly podAddress: string;
  readonly nodeAddress: string;
  /** The texts of a ConfigMap; undefined if it does not exist. */
  configMap(name: string): Promise<Readonly<Record<string, string>> | undefined>;
  /** The texts of a Secret; undefined if it does not exist. */
  secret(name: string): Promise<Readonly<Record<string, string>> | undefined>;
}

export type Environment = Readonly<Record<string, string>>;

/** Replaces `$(NAME)` by the value of a variable. Unknown names stay, and `$$(NAME)` becomes `$(NAME)`. */
export function expand(text: string, environment: Environment): string {
  return text.replace(/\$\$|\$\(([^()]+)\)/g, (found, name: string | undefined) => {
    if (name === undefined) return '$';
    return environment[name] ?? found;
  });
}

/**
 * The variables of a container: those of services, then `envFrom`, then `env`. Later ones replace earlier ones. Throws if a
 * required source does not exist.
 */
export async function environmentOf(
  container: V1Container,
  sources: EnvironmentSources,
  serviceVariables: Environment = {},
): Promise<Environment> {
  const found: Record<string, string> = { ...serviceVariables };
  for (const { prefix = '', configMapRef, secretRef } of container.envFrom ?? []) {
    const [kind, ref] = configMapRef ? (['configMap', configMapRef] as const) : (['secret', secretRef] as const);
    const values = await sources[kind](ref?.name ?? '');
    if (values === undefined && !ref?.optional) throw new MissingSource(kind, ref?.name);
    for (const [key, value] of Object.entries(values ?? {})) found[`${prefix}${key}`] = value;
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    if (valueFrom === undefined) {
      found[name] = expand(value ?? '', found);
      continue;
    }
    const { fieldRef, configMapKeyRef, secretKeyRef } = valueFrom;
    if (fieldRef) {
      found[name] = fieldOf(fieldRef.fieldPath, sources);
    } else if (configMapKeyRef || secretKeyRef) {
      const [kind, ref] = configMapKeyRef
        ? (['configMap', configMapKeyRef] as const)
        : (['secret', secretKeyRef] as const);
      const text = (await sources[kind](ref?.name ?? ''))?.[ref?.key ?? ''];
      if (text !== undefined) found[name] = text;
      else if (!ref?.optional) throw new MissingSource(kind, `${ref?.name}, key ${ref?.key}`);
    } else {
      throw new TypeError(`the source of variable ${name} is not supported`);
    }
  }
  return found;
}

/** A ConfigMap or Secret, or a key in it, that a container needs does not exist (yet). */
export class MissingSource extends Error {
  constructor(kind: string, name: string | undefined) {
    super(`${kind} ${name} not found`);
  }
}

/** The value of a field of the pod, as the downward API names it. */
export function fieldOf(
  path: string,
  { pod, podAddress, nodeAddress }: Pick<EnvironmentSources, 'pod' | 'podAddress' | 'nodeAddress'>,
): string {
  const [, kind, key = ''] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? [];
  if (kind === 'labels' || kind === 'annotations') return pod.metadata?.[kind]?.[key] ?? '';
  switch (path) {
    case 'metadata.name':
      return pod.metadata?.name ?? '';
    case 'metadata.namespace':
      return pod.metadata?.namespace ?? '';
    case 'metadata.uid':
      return pod.metadata?.uid ?? '';
    case 'spec.nodeName':
      return pod.spec?.nodeName ?? '';
    case 'spec.serviceAccountName':
      return pod.spec?.serviceAccountName ?? '';
    case 'status.podIP':
    case 'status.podIPs':
      return podAddress;
    case 'status.hostIP':
    case 'status.hostIPs':
      return nodeAddress;
    default:
      throw new TypeError(`field ${path} is not supported`);
  }
}
