// For people who use no mouse or see no page: areas that move inside the page and what opens and
// closes the menu can be reached by the keyboard, what stands beside it is named the main part, and
// where a narrow screen has no headings, each cell shows its heading, in the same letters; cells
// without a value and bare numbers are marked, for the lists that show a row in two lines there.
(() => {
  "use strict";

  const AREAS = ".panel-body, .report-scroll, pre.json";

  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const moves = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
      if (moves) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });

  // The theme has them as icons that only a mouse can press.
  function makeButton(icon, name) {
    icon.setAttribute("role", "button");
    icon.setAttribute("aria-label", name);
    icon.tabIndex = 0;
    icon.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      icon.click();
    });
  }

  function reach() {
    document.querySelectorAll(AREAS).forEach((area) => watch.observe(area));
    document.querySelectorAll("[data-label]").forEach(({ dataset }) => {
      dataset.label = dataset.label.charAt(0).toUpperCase() + dataset.label.slice(1);
    });
    document.querySelectorAll("#result_list .data-row > *").forEach((cell) => {
      const text = cell.textContent.trim();
      cell.toggleAttribute("data-empty", text === "–");
      cell.toggleAttribute("data-bare", /^[\d,]{1,9}\+?$/.test(text));
    });
  }

  document.addEventListener("renewed", reach);
  document.addEventListener("DOMContentLoaded", () => {
    reach();
    // What the attribute asks for, some browsers leave out now and then: when a script has led to
    // the page, or when they are busy. What is hidden, as the search, takes no focus.
    document.querySelectorAll("[autofocus]").forEach((field) => {
      if (document.activeElement === document.body) field.focus();
    });
    const name = document.querySelector("[data-menu-name]")?.dataset.menuName;
    if (name) document.querySelectorAll("span[x-on\\:click*='sidebar']").forEach((icon) => makeButton(icon, name));
    (document.getElementById("main") ?? document.getElementById("page"))?.setAttribute("role", "main");
  });
  // The form's own script gives the focus to the first field, after a refusal, too.
  addEventListener("load", () => document.querySelector("form [aria-invalid='true']")?.focus());
  // The theme names scrolled areas in English alone and all the same, gives the column of the boxes
  // that delete no head, and hints of the lists of permissions a name and no role; all of it is made
  // as the page loads.
  addEventListener("load", () => setTimeout(() => {
    const names = document.querySelector("[data-scrolled-name]")?.dataset;
    if (!names) return;
    document.getElementById("nav-sidebar-inner")?.setAttribute("aria-label", names.menuName);
    document.querySelectorAll("[data-simplebar] [role=region]").forEach((area, index) => {
      const head = document.getElementById(area.closest("[aria-labelledby]")?.getAttribute("aria-labelledby"));
      const which = head?.textContent.trim() || (index ? index + 1 : "");
      area.setAttribute("aria-label", which ? `${names.scrolledName}: ${which}` : names.scrolledName);
    });
    document.querySelectorAll(".formset-wrapper thead th").forEach((head) => {
      if (!head.textContent.trim()) head.innerHTML = `<span class="unseen">${names.deleteName}</span>`;
    });
    document.querySelectorAll(".help-tooltip[aria-label]").forEach((hint) => hint.setAttribute("role", "img"));
  }));
})();
