// An element with `data-refresh="address"` is asked for there every few seconds, until it comes without the attribute.
// A page that nobody looks at does not ask, and after a quarter of an hour nobody waits any more.
const EVERY = 3000;
const UNTIL = Date.now() + 15 * 60 * 1000;

async function refresh(id) {
  const element = document.getElementById(id);
  if (!element.dataset.refresh || Date.now() > UNTIL) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(element.dataset.refresh, { redirect: "error" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(id);
      // Only what has changed is written, so that only that is read out.
      if (answer.ok && fresh && fresh.innerHTML !== element.innerHTML) element.innerHTML = fresh.innerHTML;
      if (answer.ok && fresh && !fresh.dataset.refresh) delete element.dataset.refresh;
    } catch {
      // The next turn tries again.
    }
  }
  setTimeout(refresh, EVERY, id);
}

for (const element of document.querySelectorAll("[data-refresh]")) setTimeout(refresh, EVERY, element.id);
