import { FakeUpstream, lost } from './fake-upstream.ts';
import { type StreamWorld, streamContract } from './stream-contract.ts';

streamContract('FakeUpstream', async (): Promise<StreamWorld> => {
  const upstream = new FakeUpstream();
  const only = () => {
    const [pipe] = upstream.streams;
    if (pipe === undefined) throw new TypeError('no stream is open');
    return pipe;
  };
  return {
    open: (listener) => {
      const pipe = upstream.stream('a:1', { peer: { address: 'me:1', principal: '' } }, listener);
      only().mayWrite = false;
      return pipe;
    },
    connect: () => only().drain(),
    get received() {
      return only().written;
    },
    answer: () => only().say(Buffer.from('answer')),
    get closed() {
      return only().state === 'open' ? 0 : 1;
    },
    stop: async () => only().breakWith(lost()),
    async [Symbol.asyncDispose]() {},
  };
});
