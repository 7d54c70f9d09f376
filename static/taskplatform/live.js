// Renews each element with an address in `data-live-url` every `data-seconds`, while the page is
// visible, until what comes is marked by `data-final`; then all that stands beside the menu, which
// is never loaded anew: its reader may be on the way to another page. What went wrong stands in
// `.stale`. Other scripts hear of it by the event `renewed`. Of a list (`data-list`), rows stay as
// they are while some are selected or a menu is open.
(() => {
  "use strict";

  const TIMEOUT_MS = 10000;
  // The server keeps messages for the next page that somebody opens.
  const HEADERS = { "X-Requested-With": "fetch" };
  // What readers and other scripts give to an element: the server never takes these away.
  const KEPT = new Set(["open", "style", "tabindex", "role", "aria-label", "aria-keyshortcuts"]);

  // Makes `old` like `fresh`, node by node, so that focus, selection and scrolling stay. Elements
  // with an id are matched by it.
  function merge(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (!old.isEqualNode(fresh)) {
      mergeAttributes(old, fresh);
      mergeChildren(old, fresh);
    }
  }

  // The scripts of the theme bind an attribute by another, and then it is theirs.
  function mergeAttributes(old, fresh) {
    // The number by which a form acts once: its answer may be on the way.
    if (old.name === "sent") return;
    const isBound = (name) => old.hasAttribute(`x-bind:${name}`);
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && !isBound(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !KEPT.has(name) && !isBound(name)) old.removeAttribute(name);
    }
  }

  function mergeChildren(old, fresh) {
    const staying = new Set([...fresh.children].map(({ id }) => id).filter(Boolean));
    for (const child of [...old.children]) if (child.id && !staying.has(child.id)) child.remove();
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      let match = place && !place.id ? place : null;
      if (child.id) match = [...old.children].find((each) => each.id === child.id) || null;
      if (match && match === place) place = place.nextSibling;
      // What is found further below comes up, as it is.
      else old.insertBefore(match || child, place);
      if (match) merge(match, child);
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  }

  // The page at the address; null when it does not come, and then readers are told.
  async function fetchPage(address) {
    const stale = document.querySelector(".stale");
    let why = stale.dataset.late;
    let page = null;
    try {
      const answer = await fetch(address, { headers: HEADERS, signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (answer.redirected) {
        why = stale.dataset.signedOut;
      } else if (answer.ok) {
        page = new DOMParser().parseFromString(await answer.text(), "text/html");
        why = "";
      }
    } catch {
      // No answer: the next time may do.
    }
    if (stale.textContent !== why) stale.textContent = why;
    return page;
  }

  function show(old, fresh) {
    const giveBack = focused();
    merge(old, fresh);
    giveBack();
    document.dispatchEvent(new Event("renewed"));
  }

  // What gives the focus back if what has it moves or goes: to the same place of its row, or to the
  // row that takes that one's place.
  function focused() {
    const active = document.activeElement;
    const row = active.closest("tr[id]");
    if (!row) return () => {};
    const place = [...row.querySelectorAll("*")].indexOf(active);
    const index = row.sectionRowIndex;
    return () => {
      if (document.activeElement === active) return;
      const rows = document.getElementById("result_list")?.tBodies[0].rows ?? [];
      const same = document.getElementById(row.id) || rows[Math.min(index, rows.length - 1)];
      same?.querySelectorAll("*")[place]?.focus({ preventScroll: true });
    };
  }

  function isBusy() {
    const open = "#result_list .action-select:checked, .problem-box :checked, .problem-say :focus, #main details[open], dialog[open], body.overflow-hidden";
    const marked = document.getSelection();
    const isMarked = !marked.isCollapsed && document.getElementById("list-rows")?.contains(marked.anchorNode);
    return isMarked || document.querySelector(open) !== null;
  }

  // The count of the new rows that wait, as a button that shows them.
  const news = document.querySelector(".list-news");

  function hideNews() {
    if (news && !isBusy()) news.hidden = true;
  }

  function waits(old, fresh) {
    if (!("list" in old.dataset)) return false;
    const rows = [...fresh.querySelectorAll("tr[id]")];
    const count = isBusy() ? rows.filter((row) => !document.getElementById(row.id)).length : 0;
    news.hidden = !count;
    news.textContent = news.dataset.news.replace("{count}", String(count));
    news.onclick = () => {
      news.hidden = true;
      show(document.getElementById(old.id), fresh);
      document.querySelector("#result_list .row-link")?.focus();
    };
    return isBusy();
  }

  async function renew(id) {
    const page = await fetchPage(document.getElementById(id).dataset.liveUrl);
    const fresh = page && page.getElementById(id);
    if (!fresh) return;
    // What stands elsewhere on the page and has changed with it.
    const others = [...page.body.children].filter((each) => each.id && each !== fresh);
    if (waits(document.getElementById(id), fresh)) return;
    for (const each of others) {
      const old = document.getElementById(each.id);
      if (old) merge(old, each);
    }
    if (!("final" in fresh.dataset)) {
      show(document.getElementById(id), fresh);
      return;
    }
    // Its buttons, facts and history are others now, too.
    const whole = await fetchPage(window.location.href);
    const main = whole && whole.getElementById("main");
    if (main) show(document.getElementById("main"), main);
  }

  const pause = document.querySelector(".list-pause");
  const isPaused = (element) => "list" in element.dataset && pause.getAttribute("aria-pressed") === "true";

  function later(id) {
    const { dataset } = document.getElementById(id);
    if ("final" in dataset) return;
    setTimeout(async () => {
      if (!document.hidden && !isPaused(document.getElementById(id))) await renew(id);
      later(id);
    }, Number(dataset.seconds) * 1000);
  }

  // For the overview, whose parts come in turn.
  window.live = { fetchPage, merge: show };

  for (const { id } of document.querySelectorAll("[data-live-url]")) later(id);
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") !== "true")));
  }
  // After what the page itself does then.
  for (const event of ["click", "keyup"]) document.addEventListener(event, () => setTimeout(hideNews));
})();
