import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { refreshMe } from '../data/poll.ts';
import { callError } from '../data/rpc.ts';
import { type Me, setToken, tokenStore } from '../data/session.ts';
import { Text } from '../parts/text.tsx';

const INVALID = 'The token is not valid, or not valid any more.';

/** Asks for a token. It is kept for the tab, and never in an address. */
export function Login({ me }: { readonly me: Me }): VNode {
  const field = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState(tokenStore.value === '' ? '' : INVALID);
  const [isAsking, setAsking] = useState(false);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? '';
    if (!/^[\x21-\x7e]+$/.test(token)) {
      setProblem(token === '' ? 'Enter a token.' : 'A token has no spaces and no letters beyond ASCII.');
      return;
    }
    setAsking(true);
    setToken(token);
    try {
      const answer = await refreshMe(undefined, true);
      if (answer?.identified === false) refuse(INVALID);
    } catch (thrown) {
      const { message, reason } = callError(thrown);
      refuse(reason === 'UNAUTHENTICATED' ? INVALID : message);
    } finally {
      setAsking(false);
    }
  };
  const refuse = (text: string): void => {
    setToken('');
    setProblem(text);
    field.current?.select();
  };
  return (
    <main class="login">
      <h1>TaskMaster</h1>
      {me.refusal === undefined || tokenStore.value === '' ? undefined : (
        <p class="quiet">
          <Text of={me.refusal.message} />
        </p>
      )}
      <form onSubmit={submit}>
        <label for="token">Token</label>
        <input
          ref={field}
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          aria-describedby="token-about"
          aria-invalid={problem !== ''}
        />
        <button type="submit" class="primary" disabled={isAsking}>
          {isAsking ? 'Asking…' : 'Log in'}
        </button>
        {problem === '' ? undefined : (
          <p class="refused" role="alert">
            {problem}
          </p>
        )}
        <p class="quiet" id="token-about">
          A token of the access file, or a JWT. It stays in this tab and is gone when you close it.
        </p>
      </form>
    </main>
  );
}
