// For forms whose parts are drawn anew while they are filled in. What the server does not answer, or
// answers with another page, such as that of the sign-in, takes nothing away: what stands there
// stays, and a note says why. A form can still be saved when its writer has signed in again in
// another tab, which makes the form's token void.
(() => {
  "use strict";

  const TOKEN = "[name=csrfmiddlewaretoken]";
  const TIMEOUT_MS = 10000;
  const notes = [...document.querySelectorAll(".draft-note [data-why]")];
  const account = (page) => page.getElementById("palette")?.dataset.user;

  function say(why) {
    for (const note of notes) note.hidden = note.dataset.why !== why;
  }

  async function renewToken() {
    const answer = await fetch(window.location.href, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const token = page.querySelector(TOKEN)?.value;
    // Nobody saves what somebody else has typed.
    if (!token || account(page) !== account(document)) return;
    for (const field of document.querySelectorAll(TOKEN)) field.value = token;
    say("");
  }

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    detail.timeout ||= TIMEOUT_MS;
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const came = new URL(detail.xhr.responseURL);
    const isOther = came.pathname !== new URL(detail.requestConfig.path, window.location.href).pathname;
    if (isOther) detail.shouldSwap = false;
    if (!isOther && !detail.isError) return say("");
    say(isOther && came.pathname === notes[0].dataset.signIn ? "signed-out" : "late");
    if (detail.xhr.status === 403) renewToken();
    return undefined;
  });
  for (const failure of ["sendError", "timeout"]) document.addEventListener(`htmx:${failure}`, () => say("late"));
  window.addEventListener("focus", () => notes.some((note) => !note.hidden && note.dataset.why === "signed-out") && renewToken());
})();
