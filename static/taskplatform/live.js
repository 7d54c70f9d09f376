// Renews each element with an address in `data-live-url` every `data-seconds`, while the page is
// visible, until what comes is marked by `data-final`; then the page is loaded once more.
(() => {
  "use strict";

  const TIMEOUT_MS = 10000;
  // What readers and other scripts have changed stays: an open part, and what a script has hidden.
  const KEPT = new Set(["open", "style"]);

  // Makes `old` like `fresh` and leaves alone what is the same, so that nobody loses a selection.
  function merge(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    const isElement = old.nodeType === Node.ELEMENT_NODE;
    if (!isElement || old.nodeName !== fresh.nodeName || old.childNodes.length !== fresh.childNodes.length) {
      old.replaceWith(document.adoptNode(fresh));
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!KEPT.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (!KEPT.has(name)) old.setAttribute(name, value);
    }
    const parts = [...fresh.childNodes];
    [...old.childNodes].forEach((part, place) => merge(part, parts[place]));
  }

  async function renew(old) {
    if (document.hidden) return;
    try {
      const answer = await fetch(old.dataset.liveUrl, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(old.id);
      if (fresh) merge(old, fresh);
    } catch {
      // The next time may do.
    }
  }

  function later(id) {
    const element = document.getElementById(id);
    setTimeout(async () => {
      await renew(element);
      if ("final" in document.getElementById(id).dataset) window.location.reload();
      else later(id);
    }, Number(element.dataset.seconds) * 1000);
  }

  for (const { id } of document.querySelectorAll("[data-live-url]:not([data-final])")) later(id);
})();
