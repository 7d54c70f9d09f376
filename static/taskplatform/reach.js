// For people who use no mouse or see no page: areas that move inside the page can be reached by
// the keyboard, and what stands beside the menu is named the main part.
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

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(AREAS).forEach((area) => watch.observe(area));
    (document.getElementById("main") ?? document.getElementById("page"))?.setAttribute("role", "main");
  });
})();
