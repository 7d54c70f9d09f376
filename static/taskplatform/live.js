// Renews each element with an address in `data-live-url` every `data-seconds`, while the page is
// visible, until what comes is marked by `data-final`; then all that stands beside the menu, which
// is never loaded anew: its reader may be on the way to another page. What went wrong stands in
// `.stale`. Other scripts hear of it by the event `renewed`.
(() => {
  "use strict";

  const TIMEOUT_MS = 10000;
  // What readers and other scripts give to an element: the server never takes these away.
  const KEPT = new Set(["open", "style", "tabindex", "role", "aria-label", "aria-keyshortcuts"]);

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

  // The scripts of the theme bind an attribute by another, and then it is theirs.
  function mergeAttributes(old, fresh) {
    const isBound = (name) => old.hasAttribute(`x-bind:${name}`);
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && !isBound(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !KEPT.has(name) && !isBound(name)) old.removeAttribute(name);
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

  function show(old, fresh) {
    merge(old, fresh);
    document.dispatchEvent(new Event("renewed"));
  }

  // Of a list, whose rows stay while some are selected or a menu is open: then only how many are new
  // is said, and a press of it shows them.
  function waits(old, fresh) {
    const button = "list" in old.dataset && document.querySelector(".list-news");
    if (!button) return false;
    const isBusy = document.querySelector("#result_list input:checked, #main details[open]") !== null;
    const rows = [...fresh.querySelectorAll("tr[id]")];
    const count = isBusy ? rows.filter((row) => !document.getElementById(row.id)).length : 0;
    button.hidden = !count;
    button.textContent = button.dataset.news.replace("{count}", String(count));
    button.onclick = () => {
      button.hidden = true;
      show(document.getElementById(old.id), fresh);
    };
    return isBusy;
  }

  async function renew(id) {
    const page = await fetchPage(document.getElementById(id).dataset.liveUrl);
    const fresh = page && page.getElementById(id);
    if (!fresh || waits(document.getElementById(id), fresh)) return;
    if (!("final" in fresh.dataset)) {
      show(document.getElementById(id), fresh);
      return;
    }
    // Its buttons, facts and history are others now, too.
    const whole = await fetchPage(window.location.href);
    const main = whole && whole.getElementById("main");
    if (main) show(document.getElementById("main"), main);
  }

  function later(id) {
    const { dataset } = document.getElementById(id);
    if ("final" in dataset) return;
    setTimeout(async () => {
      if (!document.hidden) await renew(id);
      later(id);
    }, Number(dataset.seconds) * 1000);
  }

  // For the overview, whose parts come in turn.
  window.live = { fetchPage, merge: show };

  for (const { id } of document.querySelectorAll("[data-live-url]")) later(id);
})();
