const REFRESH_MS = 2_000;

/**
 * Refreshes the page: loads it again and replaces the parts marked `data-live`, so that a filter which is being typed and the
 * scroll position stay. Without JavaScript the whole page reloads.
 */
export const pageScript = `
async function refresh() {
  if (!document.hidden) {
    try {
      const reply = await fetch(location.href, { signal: AbortSignal.timeout(10000) });
      const fresh = new DOMParser().parseFromString(await reply.text(), 'text/html');
      const focused = document.activeElement?.id;
      for (const part of document.querySelectorAll('[data-live]')) {
        part.replaceChildren(...fresh.getElementById(part.id).childNodes);
      }
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
      document.body.classList.remove('lost');
    } catch {
      document.body.classList.add('lost');
    }
  }
  setTimeout(refresh, ${REFRESH_MS});
}
setTimeout(refresh, ${REFRESH_MS});
`;
