// Keeps the desk up to date: asks every few seconds while the page is visible, and shows in the title how many promised
// calls are due.
"use strict";

(() => {
  const lists = document.querySelector("[data-now]");
  const title = document.title;
  const STAYS = 30_000; // ms, from the last use of the keyboard or the last move of the focus
  let usedAt = 0;

  for (const use of ["focusin", "keydown"]) document.addEventListener(use, () => (usedAt = performance.now()));

  function show(page) {
    const isInUse = performance.now() - usedAt < STAYS;
    for (const id of ["now-counters", "now-next", "now-lists"]) {
      const [now, next] = [document, page].map((each) => each.getElementById(id));
      // Do not replace what somebody is about to press. A link opened in another tab keeps the focus, though.
      if (!next || next === now || (isInUse && now.contains(document.activeElement))) continue;
      now.replaceChildren(...next.childNodes);
      Object.assign(now.dataset, next.dataset);
    }
    const overdue = Number(document.getElementById("now-counters").dataset.overdue);
    document.title = overdue ? `(${overdue}) ${title}` : title;
  }

  async function look() {
    if (document.hidden || pressing.isSent()) return;
    const answer = await pressing.ask(lists.dataset.now);
    if (pressing.isLockedOut(answer)) return location.reload(); // to the login, or why not
    if (!answer?.ok) return void pressing.check();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!pressing.isSent()) show(page); // or it may hold the form being sent
  }

  setInterval(look, lists.dataset.lookedEvery * 1000);
  document.addEventListener("visibilitychange", look);
  show(document);
})();
