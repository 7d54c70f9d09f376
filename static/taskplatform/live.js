// Renews each element with an address in `data-live-url` every `data-seconds`, while the page is
// visible, until what comes is marked by `data-final`; then the page is loaded once more. What went
// wrong stands in `.stale`.
(() => {
  "use strict";

  const TIMEOUT_MS = 10000;

  // Makes `old` like `fresh`, node by node, so that focus, selection and scrolling stay. Elements
  // with an id are matched by it.
  function merge(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (!old.isEqualNode(fresh)) {
      mergeAttributes(old, fresh);
      mergeChildren(old, fresh);
    }
  }

  // What readers and other scripts have changed stays: an open part, and what a script has hidden.
  function mergeAttributes(old, fresh) {
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "style") old.removeAttribute(name);
    }
  }

  function mergeChildren(old, fresh) {
    let place = old.firstChild;
    function removeUpTo(end) {
      while (place && place !== end) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
      }
    }
    for (const child of [...fresh.childNodes]) {
      let match = place;
      if (child.id) {
        match = [...old.children].find((each) => each.id === child.id) || null;
      } else if (place && place.id) {
        match = null;
      }
      if (match) {
        removeUpTo(match);
        place = match.nextSibling;
        merge(match, child);
      } else {
        old.insertBefore(child, place);
      }
    }
    removeUpTo(null);
  }

  // The page at the address; null when it does not come, and then readers are told.
  async function fetchPage(address) {
    const stale = document.querySelector(".stale");
    let why = stale.dataset.late;
    let page = null;
    try {
      const answer = await fetch(address, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (answer.redirected) {
        why = stale.dataset.signedOut;
      } else if (answer.ok) {
        page = new DOMParser().parseFromString(await answer.text(), "text/html");
        why = "";
      }
    } catch {
      // No answer: the next time may do.
    }
    if (stale.textContent !== why) stale.textContent = why;
    return page;
  }

  async function renew(old) {
    if (document.hidden) return;
    const page = await fetchPage(old.dataset.liveUrl);
    const fresh = page && page.getElementById(old.id);
    if (fresh) merge(old, fresh);
  }

  function later(id) {
    const element = document.getElementById(id);
    setTimeout(async () => {
      await renew(element);
      if ("final" in document.getElementById(id).dataset) window.location.reload();
      else later(id);
    }, Number(element.dataset.seconds) * 1000);
  }

  // For the overview, whose parts come in turn.
  window.live = { fetchPage, merge };

  for (const { id } of document.querySelectorAll("[data-live-url]:not([data-final])")) later(id);
})();
