// Shortcuts of the keyboard: an element with `data-key` is pressed by that key or by two keys, one
// after the other. j and k move over the rows of a list, x selects one, Enter opens it, / goes to the
// search, ? shows all of them. Nothing happens while somebody types, and nothing at all where the
// page has no list of the keys, because a person has turned them off.
(() => {
  "use strict";

  const ROWS = "#result_list .data-row, .failures-list > .failure";
  const LINK = "th a[href], td a[href], a[href]";
  const TYPED_IN = "input:not([type=checkbox]), textarea, select, [contenteditable]";
  // Between the two keys of one shortcut.
  const PATIENCE_MS = 1500;

  let first = "";
  let timer = 0;

  const isSeen = (element) => element.getClientRects().length > 0;

  function move(step) {
    const rows = [...document.querySelectorAll(ROWS)].filter(isSeen);
    if (!rows.length) return false;
    const here = rows.findIndex((row) => row.contains(document.activeElement));
    const next = here < 0 ? 0 : Math.min(Math.max(here + step, 0), rows.length - 1);
    rows[next].querySelector(LINK)?.focus();
    rows[next].scrollIntoView({ block: "nearest" });
    return true;
  }

  function select() {
    const row = [...document.querySelectorAll(ROWS)].find((each) => each.contains(document.activeElement));
    const box = row?.querySelector("input.action-select");
    box?.click();
    return Boolean(box);
  }

  function search() {
    const box = document.getElementById("searchbar");
    if (box && isSeen(box)) box.select();
    // Another script knows where the search of everything is.
    else document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
    return true;
  }

  function press(keys) {
    const found = [...document.querySelectorAll("[data-key]")];
    const target = found.find((element) => element.dataset.key === keys);
    target?.click();
    return Boolean(target);
  }

  // To those who hear the page.
  function tell() {
    for (const element of document.querySelectorAll("[data-key]")) {
      if (element.dataset.key.length === 1) element.setAttribute("aria-keyshortcuts", element.dataset.key);
    }
  }

  function start(dialog) {
    const built = {
      j: () => move(1),
      k: () => move(-1),
      x: select,
      "/": search,
      "?": () => {
        dialog.showModal();
        return true;
      },
    };

    function onKey(event) {
      const { key, target } = event;
      if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (dialog.open || target.closest?.(TYPED_IN)) return;
      const keys = first ? `${first} ${key}` : key;
      clearTimeout(timer);
      first = "";
      if (press(keys) || built[keys]?.()) {
        event.preventDefault();
      } else if (document.querySelector(`[data-key^="${CSS.escape(key)} "]`)) {
        first = key;
        timer = setTimeout(() => {
          first = "";
        }, PATIENCE_MS);
      }
    }

    document.addEventListener("keydown", onKey);
    // A click beside it closes it, as Esc does.
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.addEventListener("renewed", tell);
    tell();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const dialog = document.getElementById("keys");
    if (dialog) start(dialog);
  });
})();
