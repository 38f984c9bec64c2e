// Keeps the desk up to date: asks every few seconds, once a minute while the page is hidden, and shows in the title how
// many promised calls are due.
"use strict";

(() => {
  const lists = document.querySelector("[data-now]");
  const title = document.title;
  const STAYS = 30_000; // ms, from the last use of the keyboard or pointer, or the last move of the focus
  const SELDOM = 55_000; // ms between two looks of a hidden page; timers are not exact
  let lookedAt = performance.now();
  let usedAt = 0;
  let used = null; // not every press moves the focus
  let isRenewing = false;

  for (const use of ["focusin", "keydown", "pointerdown"]) {
    document.addEventListener(use, ({ target }) => {
      if (isRenewing) return;
      usedAt = performance.now();
      used = target;
    });
  }

  /** Replace what is in a part, and give the focus to the link or button that does what the focused one did. */
  function renew(part, next) {
    const leadsTo = ({ href, form }) => href ?? form?.action;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    // Focused again for nothing, it would take a screen reader away from what it reads.
    if (focused && part.innerHTML === next.innerHTML) return;
    part.replaceChildren(...next.childNodes);
    if (!focused) return;
    const same = [...part.querySelectorAll("a, button")].find((each) => leadsTo(each) === leadsTo(focused));
    isRenewing = true; // no use of the page
    same?.focus({ preventScroll: true });
    isRenewing = false;
  }

  function show(page) {
    // What stays needs the token, too: its person may have signed in anew, in another tab.
    const token = page.querySelector("[name=csrfmiddlewaretoken]")?.value;
    for (const field of [document, page].flatMap((each) => [...each.getElementsByName("csrfmiddlewaretoken")])) {
      Object.assign(field, { value: token ?? field.value, autocomplete: "off" }); // or Safari would restore it on the way back
    }
    // That nobody was due when Next was pressed may be true no more, and hides the line that says when somebody is.
    const due = (each) => [...each.querySelectorAll("#now-counters .now, #now-next, #now-others")].map((part) => part.innerHTML).join();
    if (due(page) !== due(document)) document.querySelector(".messagelist .nobody")?.remove();
    const isInUse = performance.now() - usedAt < STAYS;
    for (const id of ["now-counters", "now-next", "now-lists"]) {
      const [now, next] = [document, page].map((each) => each.getElementById(id));
      // Do not replace what somebody is about to press. A link opened in another tab keeps the focus, though.
      if (!next || next === now || (isInUse && [document.activeElement, used].some((each) => now.contains(each)))) continue;
      renew(now, next);
      Object.assign(now.dataset, next.dataset);
    }
    const overdue = Number(document.getElementById("now-counters").dataset.overdue);
    document.title = overdue ? `(${overdue}) ${title}` : title;
  }

  async function look() {
    if (pressing.isSent() || (document.hidden && performance.now() - lookedAt < SELDOM)) return;
    lookedAt = performance.now();
    const answer = await pressing.ask(lists.dataset.now);
    if (pressing.isLockedOut(answer)) return location.reload(); // to the login, or why not
    const text = answer?.ok ? await answer.text().catch(() => null) : null; // a line may be cut within the answer
    if (text === null) return void pressing.check();
    if (!pressing.isSent()) show(new DOMParser().parseFromString(text, "text/html")); // or it may hold the form being sent
  }

  setInterval(look, lists.dataset.lookedEvery * 1000);
  document.addEventListener("visibilitychange", look);
  show(document);
})();
