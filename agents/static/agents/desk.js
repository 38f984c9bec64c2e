// The desk as it is now: looks every few seconds while somebody can see it, and says in the title how many calls that were
// promised are due.
"use strict";

(() => {
  const lists = document.querySelector("[data-now]");
  const title = document.title;

  function show(page) {
    for (const id of ["now-counters", "now-next", "now-lists"]) {
      const [now, next] = [document, page].map((each) => each.getElementById(id));
      // Who is about to press something in it shall find it there.
      if (!next || next === now || now.contains(document.activeElement)) continue;
      now.replaceChildren(...next.childNodes);
      Object.assign(now.dataset, next.dataset);
    }
    const overdue = Number(document.getElementById("now-counters").dataset.overdue);
    document.title = overdue ? `(${overdue}) ${title}` : title;
  }

  async function look() {
    if (document.hidden || pressing.isSent()) return;
    const answer = await pressing.ask(lists.dataset.now);
    if (!answer?.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!pressing.isSent()) show(page); // else it may hold what is being sent
  }

  setInterval(look, lists.dataset.lookedEvery * 1000);
  document.addEventListener("visibilitychange", look);
  show(document);
})();
