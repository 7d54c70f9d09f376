// Keeps the overview up to date: fetches its parts every few seconds while somebody can see it, and
// changes only what differs, so that focus, selection and scrolling stay where they are. Once a minute
// the answers are the parts of the last hour, one by one, before how everything stands.
(() => {
  "use strict";

  const PATIENCE_MS = 10000;
  // How everything stands comes last.
  const LAST = "overview-present";
  const MOST_PARTS = 3;

  // Makes `old` like `fresh`, node by node. Elements with an id are matched by it.
  function renew(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (!old.isEqualNode(fresh)) {
      renewAttributes(old, fresh);
      renewChildren(old, fresh);
    }
  }

  function renewAttributes(old, fresh) {
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      // Whoever opened the details wants to go on reading them.
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
  }

  function renewChildren(old, fresh) {
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      let match = place;
      if (child.id) {
        match = [...old.children].find((each) => each.id === child.id) || null;
      } else if (place && place.id) {
        match = null;
      }
      if (!match) {
        old.insertBefore(child, place);
        continue;
      }
      while (place && place !== match) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
      }
      place = match.nextSibling;
      renew(match, child);
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  }

  function start(root) {
    const bar = root.querySelector(".overview-live");
    const stale = root.querySelector(".overview-stale");
    const button = bar.querySelector("button");
    const period = Number(root.dataset.seconds) * 1000;
    let timer = 0;
    let asking = false;
    let paused = false;

    function tell(text) {
      if (stale.textContent !== text) stale.textContent = text;
      root.classList.toggle("overview-is-stale", Boolean(text));
    }

    function address() {
      const url = new URL(root.dataset.url, window.location.href);
      for (const part of root.querySelectorAll("[data-known]")) {
        url.searchParams.append("known", part.dataset.known);
      }
      return url;
    }

    function show(text) {
      const page = new DOMParser().parseFromString(text, "text/html");
      const parts = [...page.body.children];
      for (const fresh of parts) {
        const old = document.getElementById(fresh.id);
        if (old) renew(old, document.adoptNode(fresh));
        else root.append(fresh);
      }
      return parts.length ? parts[0].id : "";
    }

    async function refresh() {
      clearTimeout(timer);
      if (asking || paused || document.hidden) return;
      asking = true;
      try {
        for (let part = 0; part < MOST_PARTS; part += 1) {
          const came = await ask();
          if (!came || came === LAST) break;
        }
      } catch {
        tell(stale.dataset.late);
      }
      asking = false;
      later();
    }

    // Returns the id of the part that came, if any.
    async function ask() {
      const answer = await fetch(address(), { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (answer.redirected) {
        tell(stale.dataset.signedOut);
      } else if (answer.ok) {
        const part = show(await answer.text());
        tell("");
        return part;
      } else {
        tell(stale.dataset.late);
      }
      return "";
    }

    function later() {
      clearTimeout(timer);
      if (!paused && !document.hidden) timer = setTimeout(refresh, period);
    }

    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      refresh();
    });
    document.addEventListener("visibilitychange", refresh);
    // A page that the browser kept while another was shown.
    window.addEventListener("pageshow", (event) => event.persisted && refresh());
    bar.hidden = false;
    later();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const root = document.getElementById("overview");
    if (root) start(root);
  });
})();
