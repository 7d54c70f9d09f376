// Refreshes the overview: fetches its parts every few seconds while the page is visible, and changes
// only what differs, so that focus, selection and scrolling stay. Once a minute the trends of the
// last hour come first, and then the present state.
(() => {
  "use strict";

  const TIMEOUT_MS = 10000;
  // The present state comes last.
  const LAST = "overview-present";
  const MAX_PARTS = 2;

  function start(root) {
    const bar = root.querySelector(".overview-live");
    const stale = root.querySelector(".overview-stale");
    const button = bar.querySelector("button");
    const period = Number(root.dataset.seconds) * 1000;
    let timer = 0;
    let fetching = false;
    let paused = false;

    function announce(text) {
      if (stale.textContent !== text) stale.textContent = text;
      root.classList.toggle("overview-is-stale", Boolean(text));
    }

    function address() {
      const url = new URL(root.dataset.url, window.location.href);
      const trends = root.querySelector("[data-known]");
      if (trends) url.searchParams.set("known", trends.dataset.known);
      return url;
    }

    function show(text) {
      const page = new DOMParser().parseFromString(text, "text/html");
      const parts = [...page.body.children];
      for (const fresh of parts) {
        const old = document.getElementById(fresh.id);
        if (old) window.mergeElement(old, fresh);
        else root.append(fresh);
      }
      return parts.length ? parts[0].id : "";
    }

    async function refresh() {
      clearTimeout(timer);
      if (fetching || paused || document.hidden) return;
      fetching = true;
      try {
        for (let part = 0; part < MAX_PARTS; part += 1) {
          const came = await fetchPart();
          if (!came || came === LAST) break;
        }
      } catch {
        announce(stale.dataset.late);
      }
      fetching = false;
      later();
    }

    // Returns the id of the part that came, if any.
    async function fetchPart() {
      const answer = await fetch(address(), { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (answer.redirected) {
        announce(stale.dataset.signedOut);
      } else if (answer.ok) {
        const part = show(await answer.text());
        announce("");
        return part;
      } else {
        announce(stale.dataset.late);
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
