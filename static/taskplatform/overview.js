// Refreshes the overview: fetches its parts every few seconds while the page is visible, and changes
// only what differs, so that focus, selection and scrolling stay. Once a minute the chart comes
// first, and then the present state. While a menu of a row is open, nothing moves below the hand.
(() => {
  "use strict";

  // The present state comes last.
  const LAST = "overview-present";
  const MAX_PARTS = 2;

  function start(root) {
    const bar = document.querySelector(".overview-live");
    const stale = bar.querySelector(".stale");
    const button = bar.querySelector("button");
    const period = Number(root.dataset.seconds) * 1000;
    let timer = 0;
    let fetching = false;
    let paused = false;

    function address() {
      const url = new URL(root.dataset.url, window.location.href);
      const trends = root.querySelector("[data-known]");
      if (trends) url.searchParams.set("known", trends.dataset.known);
      return url;
    }

    // Returns the id of the first part of the page, if any.
    function show(page) {
      const parts = [...page.body.children];
      for (const fresh of parts) {
        const old = document.getElementById(fresh.id);
        if (old) window.live.merge(old, fresh);
        else root.append(fresh);
      }
      return parts.length ? parts[0].id : "";
    }

    async function refresh() {
      clearTimeout(timer);
      if (fetching || paused || document.hidden) return;
      if (root.querySelector(".trouble-more[open]")) {
        later();
        return;
      }
      fetching = true;
      for (let part = 0; part < MAX_PARTS; part += 1) {
        const page = await window.live.fetchPage(address());
        const came = page && show(page);
        if (!came || came === LAST) break;
      }
      bar.classList.toggle("overview-is-stale", Boolean(stale.textContent));
      fetching = false;
      later();
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
    button.hidden = false;
    later();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const root = document.getElementById("overview");
    if (root) start(root);
  });
})();
