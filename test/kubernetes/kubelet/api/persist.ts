import { setTimeout as delay } from 'node:timers/promises';
import { ApiException } from '@kubernetes/client-node';

const PAUSE_MS = 300;

/** True if the API server has answered: a repetition has the same outcome. */
export const isAnswer = (error: unknown): boolean =>
  error instanceof ApiException && error.code < 500 && error.code !== 429;

export const isAnswerWith = (error: unknown, ...codes: readonly number[]): boolean =>
  error instanceof ApiException && codes.includes(error.code);

/** Repeats a call until the API server answers it. Rejects with its refusal, or when the signal ends the wait. */
export async function persist<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || isAnswer(error)) throw error;
      await delay(PAUSE_MS, undefined, { signal });
    }
  }
}
