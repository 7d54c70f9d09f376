// For forms that people fill in, whose parts may be drawn anew meanwhile. What the server does not
// answer, or answers with another page, such as that of the sign-in, takes nothing away: what stands
// there stays, and a note says why. So before a form is sent, the server is asked whether its writer
// is still signed in. It can be saved when they have signed in again in another tab, which makes the
// form's token void. Nothing of it is kept anywhere else.
(() => {
  "use strict";

  const TOKEN = "[name=csrfmiddlewaretoken]";
  const TIMEOUT_MS = 10000;
  const notes = [...document.querySelectorAll(".draft-note [data-why]")];
  const [note] = notes;
  const account = document.getElementById("palette")?.dataset.user;
  // The forms of which the server is being asked, and those that it has said yes to.
  const asking = new WeakSet();
  const sure = new WeakSet();

  function say(why) {
    for (const each of notes) each.hidden = each.dataset.why !== why;
  }

  // Whether what is sent now is taken for that of the writer, as far as is known.
  async function isSignedIn() {
    const headers = { "X-Requested-With": "fetch" };
    const answer = await fetch(note.dataset.signedIn, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => null);
    if (!answer?.ok) return true;
    const now = answer.redirected ? {} : await answer.json();
    // Nobody saves what somebody else has typed.
    if (!now.account || (account && now.account !== account)) return false;
    for (const field of document.querySelectorAll(TOKEN)) field.value = now.token;
    say("");
    return true;
  }

  document.addEventListener(
    "submit",
    async (event) => {
      const { target: form, submitter } = event;
      if (form.getAttribute("method")?.toLowerCase() !== "post" || sure.delete(form)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (asking.has(form)) return;
      asking.add(form);
      const isSure = await isSignedIn();
      asking.delete(form);
      if (isSure) {
        sure.add(form);
        form.requestSubmit(submitter);
      } else {
        say("signed-out");
        note.scrollIntoView({ block: "center" });
      }
    },
    true,
  );

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    detail.timeout ||= TIMEOUT_MS;
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const came = new URL(detail.xhr.responseURL);
    const isOther = came.pathname !== new URL(detail.requestConfig.path, window.location.href).pathname;
    if (isOther) detail.shouldSwap = false;
    if (!isOther && !detail.isError) return say("");
    say(isOther && came.pathname === note.dataset.signIn ? "signed-out" : "late");
    if (detail.xhr.status === 403) isSignedIn();
    return undefined;
  });
  for (const failure of ["sendError", "timeout"]) document.addEventListener(`htmx:${failure}`, () => say("late"));
  window.addEventListener("focus", () => note.hidden || isSignedIn());
})();
