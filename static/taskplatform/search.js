// The palette: Ctrl+K (⌘K) opens it over any page, and it shows what is found while somebody types.
// Enter opens the chosen line; nothing is done by that, because an action has a page that asks.
(() => {
  "use strict";

  const DELAY_MS = 150;
  const MAX_PLACES = 7;

  // The last pages of this person in this browser, newest first.
  function places(key) {
    try {
      const kept = JSON.parse(localStorage.getItem(key) || "[]");
      return Array.isArray(kept) ? kept.filter(({ url }) => /^\/[^/\\]/.test(url)).slice(0, MAX_PLACES) : [];
    } catch {
      // A store that is closed, full or spoilt keeps no places.
      return [];
    }
  }

  function remember(key) {
    const url = window.location.pathname + window.location.search;
    const title = document.title.split(" | ")[0];
    const others = places(key).filter((each) => each.url !== url);
    try {
      localStorage.setItem(key, JSON.stringify([{ url, title }, ...others].slice(0, MAX_PLACES + 1)));
    } catch {
      // As above.
    }
  }

  function start(dialog) {
    const form = dialog.querySelector("form");
    const input = dialog.querySelector("input");
    const list = dialog.querySelector("[role=listbox]");
    const status = dialog.querySelector("[role=status]");
    const key = `places:${dialog.dataset.user}`;
    let timer = 0;
    let asked = 0;
    // The text that the list answers.
    let answered = "";

    const options = () => [...list.querySelectorAll("[role=option]")];
    const chosen = () => list.querySelector("[aria-selected=true]");

    function choose(option) {
      chosen()?.setAttribute("aria-selected", "false");
      if (!option) return input.removeAttribute("aria-activedescendant");
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({ block: "nearest" });
      return input.setAttribute("aria-activedescendant", option.id);
    }

    function drawn(text) {
      const found = options();
      found.forEach((option, number) => {
        option.id = `palette-hit-${number}`;
      });
      input.setAttribute("aria-expanded", String(found.length > 0));
      answered = text;
      if (!text) status.textContent = "";
      else status.textContent = found.length ? `${dialog.dataset.found} ${found.length}` : dialog.dataset.nothing;
      choose(found[0]);
    }

    function showPlaces() {
      const here = window.location.pathname + window.location.search;
      const kept = places(key).filter(({ url }) => url !== here);
      list.replaceChildren();
      if (kept.length) {
        const group = document.createElement("div");
        group.setAttribute("role", "group");
        group.setAttribute("aria-label", dialog.dataset.places);
        const head = document.createElement("p");
        head.className = "palette-head";
        head.setAttribute("aria-hidden", "true");
        head.textContent = dialog.dataset.places;
        group.append(head);
        for (const { url, title } of kept) {
          const option = document.createElement("a");
          option.className = "palette-hit";
          option.setAttribute("role", "option");
          option.tabIndex = -1;
          option.href = url;
          option.textContent = title;
          group.append(option);
        }
        list.append(group);
      }
      drawn("");
    }

    async function ask() {
      const text = input.value.trim();
      asked += 1;
      const turn = asked;
      if (!text) return showPlaces();
      const answer = await fetch(`${form.action}?${new URLSearchParams({ part: "hits", term: text })}`).catch(() => null);
      // A late answer never takes the place of a newer one.
      if (turn !== asked) return undefined;
      if (!answer?.ok || answer.redirected) {
        list.replaceChildren();
        drawn("");
        status.textContent = answer?.redirected ? dialog.dataset.signedOut : dialog.dataset.late;
        return undefined;
      }
      const html = await answer.text();
      if (turn !== asked) return undefined;
      list.innerHTML = html;
      return drawn(text);
    }

    function open() {
      if (dialog.open) return input.select();
      showPlaces();
      dialog.showModal();
      input.focus();
      input.select();
      return input.value.trim() ? ask() : undefined;
    }

    function move(step) {
      const found = options();
      if (!found.length) return;
      const place = found.indexOf(chosen()) + step;
      choose(found[(place + found.length) % found.length]);
    }

    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, DELAY_MS);
    });
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        move(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter") {
        const option = answered === input.value.trim() ? chosen() : null;
        // Else the form leads to the page of the search.
        if (!option) return;
        event.preventDefault();
        if (event.ctrlKey || event.metaKey) window.open(option.href, "_blank", "noopener");
        else window.location.assign(option.href);
      }
    });
    list.addEventListener("pointermove", (event) => {
      const option = event.target.closest("[role=option]");
      if (option && option !== chosen()) choose(option);
    });
    // A click beside it closes it, as Esc does.
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => {
      clearTimeout(timer);
      asked += 1;
    });
    document.addEventListener("keydown", (event) => {
      const isAsked = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      if (!isAsked || event.key.toLowerCase() !== "k") return;
      event.preventDefault();
      open();
    });
    remember(key);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const dialog = document.getElementById("palette");
    if (dialog) start(dialog);
  });
})();
