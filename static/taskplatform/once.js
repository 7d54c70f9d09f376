// A form is sent once by each of its buttons: a second click while the answer is on its way asks for
// nothing. Forms that add rows carry a number besides, for what browsers send twice by themselves.
(() => {
  "use strict";

  // An answer may be a file, and then the page stays. Nobody clicks twice so far apart.
  const WAIT_MS = 5000;
  // The button that has sent a form.
  const sent = new WeakMap();

  document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    const method = (submitter?.getAttribute("formmethod") || form.getAttribute("method"))?.toLowerCase();
    // Others lead to a page, or a script of the page answers.
    if (event.defaultPrevented || method !== "post") return;
    if (sent.has(form) && sent.get(form) === submitter) {
      event.preventDefault();
      return;
    }
    sent.set(form, submitter);
    setTimeout(() => sent.delete(form), WAIT_MS);
  });
})();
