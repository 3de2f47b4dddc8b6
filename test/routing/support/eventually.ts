/** Resolves once the check passes; rejects with its last failure after 10 s. */
export async function eventually(check: () => unknown, withinMs = 10_000): Promise<void> {
  const until = performance.now() + withinMs;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() >= until) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
