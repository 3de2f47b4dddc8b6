import { threadId } from 'node:worker_threads';

export default async function handle({ data }) {
  return { result: `${data} in ${threadId > 0 ? 'a thread' : 'the main thread'}` };
}
