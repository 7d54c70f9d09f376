// Renews each element with an address in `data-live-url` every `data-seconds`, while the page is
// visible, until what comes is marked by `data-final`; then the page is loaded once more.
(() => {
  "use strict";

  const TIMEOUT_MS = 10000;

  async function renew(old) {
    if (document.hidden) return old;
    try {
      const answer = await fetch(old.dataset.liveUrl, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!answer.ok || answer.redirected) return old;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(old.id);
      if (!fresh) return old;
      for (const script of fresh.querySelectorAll("script, noscript")) script.remove();
      if (!old.isEqualNode(fresh)) old.replaceWith(document.adoptNode(fresh));
      return document.getElementById(old.id);
    } catch {
      return old;
    }
  }

  function later(element) {
    setTimeout(async () => {
      const fresh = await renew(element);
      if ("final" in fresh.dataset) window.location.reload();
      else later(fresh);
    }, Number(element.dataset.seconds) * 1000);
  }

  for (const element of document.querySelectorAll("[data-live-url]:not([data-final])")) {
    later(element);
  }
})();
