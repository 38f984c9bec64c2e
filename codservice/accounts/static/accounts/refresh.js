// An element with `data-refresh="address"` is asked for there every few seconds, until it comes without the attribute.
// A page that nobody looks at does not ask, and after a quarter of an hour nobody waits any more.
const EVERY = 3000;
const UNTIL = Date.now() + 15 * 60 * 1000;

// Only what has changed, so that only that is read out, and a link that somebody is about to press keeps the focus.
function write(now, fresh) {
  if (!now.cloneNode().isEqualNode(fresh.cloneNode())) return now.replaceWith(fresh);
  const [old, next] = [[...now.childNodes], [...fresh.childNodes]];
  next.forEach((child, number) => (number < old.length ? write(old[number], child) : now.append(child)));
  for (const child of old.slice(next.length)) child.remove();
}

async function refresh(id) {
  const element = document.getElementById(id);
  if (!element.dataset.refresh || Date.now() > UNTIL) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(element.dataset.refresh, { redirect: "error" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(id);
      if (answer.ok && fresh && !fresh.dataset.refresh) delete element.dataset.refresh;
      if (answer.ok && fresh) write(element, fresh);
    } catch {
      // The next turn tries again.
    }
  }
  setTimeout(refresh, EVERY, id);
}

for (const element of document.querySelectorAll("[data-refresh]")) setTimeout(refresh, EVERY, element.id);
