// Fills the datalist beside a name box with what the server suggests for the text typed so far.
(() => {
  "use strict";

  const PAUSE_MS = 200;

  function attach(list) {
    const input = list.parentElement.querySelector("input");
    if (!input || input.dataset.suggests) return;
    input.dataset.suggests = "yes";
    input.setAttribute("list", list.id);
    let timer = 0;
    let asked = null;

    async function ask() {
      const term = input.value.trim();
      if (term === asked) return;
      asked = term;
      const url = new URL(list.dataset.suggestions, window.location.href);
      url.searchParams.set("term", term);
      const answer = await fetch(url, { headers: { Accept: "application/json" } });
      if (!answer.ok || term !== asked) return;
      const { names } = await answer.json();
      list.replaceChildren(...names.map((name) => new Option(name, name)));
    }

    input.addEventListener("focus", ask);
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, PAUSE_MS);
    });
  }

  function attachAll(root) {
    root.querySelectorAll("datalist[data-suggestions]").forEach(attach);
  }

  document.addEventListener("DOMContentLoaded", () => attachAll(document));
  // Parts of a form are exchanged while it is being filled in.
  document.addEventListener("htmx:afterSwap", (event) => attachAll(event.target.parentElement || document));
})();
