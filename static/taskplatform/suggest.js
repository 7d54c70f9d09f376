// Fills the datalist beside a name box with what the server suggests for the text typed so far, and
// with titles beside the names; in a box for several names, for the last of them.
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
      const typed = "several" in list.dataset ? input.value.match(/^(.*[\s,;])?(.*)$/) : ["", "", input.value];
      const [before, term] = [typed[1] || "", typed[2].trim()];
      if (before + term === asked) return;
      asked = before + term;
      const url = new URL(list.dataset.suggestions, window.location.href);
      url.searchParams.set("term", term);
      try {
        const answer = await fetch(url, { headers: { Accept: "application/json" } });
        const { names, labels = [] } = await answer.json();
        if (before + term !== asked) return;
        list.replaceChildren(...names.map((name, at) => new Option(labels[at] || name, before + name)));
      } catch {
        // No server, or the login page in place of names: the next key asks again.
        if (before + term === asked) asked = null;
      }
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
