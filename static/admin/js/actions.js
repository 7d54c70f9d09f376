// Selects rows of a list: one, those up to the last one with Shift, all of the page or the whole list,
// and says how many. In place of the theme's own, which knows only the rows that the page came with.
(() => {
  "use strict";

  const boxes = () => [...document.querySelectorAll("#result_list .action-select")];
  let last = null;
  let hasShift = false;

  function show(selector, isShown) {
    document.querySelectorAll(`#changelist-actions ${selector}`).forEach((each) => each.classList.toggle("hidden", !isShown));
  }

  function setWhole(isWhole) {
    const across = document.querySelector("#changelist-actions .select-across");
    if (across && across.value !== String(Number(isWhole))) {
      across.value = Number(isWhole);
      across.dispatchEvent(new Event("input"));
    }
    show(".all", isWhole);
    show(".clear", isWhole);
    show(".action-counter", !isWhole);
  }

  function say() {
    const all = boxes();
    const count = all.filter((box) => box.checked).length;
    const isAll = count > 0 && count === all.length;
    const toggle = document.getElementById("action-toggle");
    if (toggle) toggle.checked = isAll;
    setWhole(false);
    show(".question", isAll);
    const counter = document.querySelector("#changelist-actions .action-counter");
    if (counter) counter.textContent = interpolate(ngettext("%(sel)s of %(cnt)s selected", "%(sel)s of %(cnt)s selected", count), { sel: count, cnt: all.length }, true);
  }

  function select(chosen, isChecked) {
    for (const box of chosen) box.checked = isChecked;
    say();
  }

  function upTo(box) {
    const all = boxes();
    const [first, end] = [all.indexOf(last), all.indexOf(box)].sort((one, other) => one - other);
    return hasShift && first >= 0 ? all.slice(first, end + 1) : [box];
  }

  document.addEventListener("change", ({ target }) => {
    if (target.id === "action-toggle") select(boxes(), target.checked);
    if (!target.matches("#result_list .action-select")) return;
    select(upTo(target), target.checked);
    last = target;
  });
  document.addEventListener("click", (event) => {
    hasShift = event.shiftKey;
    const link = event.target.closest("#changelist-actions :is(.question, .clear) a");
    if (!link) return;
    event.preventDefault();
    if (link.closest(".clear")) {
      select(boxes(), false);
    } else {
      setWhole(true);
      show(".question", false);
    }
  });
  document.addEventListener("renewed", say);
  // Boxes that the browser has kept checked, too.
  window.addEventListener("pageshow", say);
})();
