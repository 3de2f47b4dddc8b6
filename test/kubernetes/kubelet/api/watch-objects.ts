import {
  type Informer,
  type KubeConfig,
  type KubernetesListObject,
  type KubernetesObject,
  makeInformer,
  type ObjectCache,
} from '@kubernetes/client-node';

const AGAIN_MS = 300;

/** The objects of one kind, kept current. */
export interface WatchedObjects<T extends KubernetesObject> extends AsyncDisposable {
  list(): readonly T[];
}

/** Watches all objects of one kind, also after the API server was away. Resolves when it knows the present ones. */
export async function watchObjects<T extends KubernetesObject>(
  config: KubeConfig,
  path: string,
  list: () => Promise<KubernetesListObject<T>>,
  { changed, gone }: { readonly changed?: (object: T) => void; readonly gone?: (object: T) => void },
): Promise<WatchedObjects<T>> {
  const informer: Informer<T> & ObjectCache<T> = makeInformer(config, path, list);
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  informer.on('add', (object) => changed?.(object));
  informer.on('update', (object) => changed?.(object));
  informer.on('delete', (object) => gone?.(object));
  informer.on('error', () => {
    if (!isStopped) timer = setTimeout(() => void informer.start(), AGAIN_MS);
  });
  await informer.start();
  return {
    list: () => informer.list(),
    async [Symbol.asyncDispose]() {
      isStopped = true;
      clearTimeout(timer);
      await informer.stop();
    },
  };
}
