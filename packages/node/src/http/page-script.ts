/** How often the page looks again, in ms. */
const REFRESH_MS = 2_000;

/**
 * Keeps the page up to date: fetches it anew and puts its live parts in the place of the old ones, so that the filter being
 * typed and the place scrolled to stay. Without it the page shows the moment it was loaded, and reloads itself.
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
