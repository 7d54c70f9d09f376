// Ctrl+K (⌘K) puts the cursor into the search box; where the menu with it is away, it opens the
// page of the search.
(() => {
  "use strict";

  document.addEventListener("keydown", (event) => {
    const isAsked = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!isAsked || event.key.toLowerCase() !== "k") return;
    const boxes = [...document.querySelectorAll("form[data-search] input[name=term]")];
    if (!boxes.length) return;
    event.preventDefault();
    const { innerWidth } = window;
    const seen = boxes.find((box) => {
      const { left, right, width } = box.getBoundingClientRect();
      return width > 0 && left >= 0 && right <= innerWidth;
    });
    if (seen) seen.select();
    else window.location.assign(boxes[0].form.action);
  });
})();
